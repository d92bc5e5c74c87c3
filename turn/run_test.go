package turn

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentstateloop/internal/secret"
)

func TestAnswerOfProgram(t *testing.T) {
	b := newFixture(t, `printf 'you said: '; cat; echo note >&2`)
	b.Prompt = []byte("wake up; $(touch /nowhere) `x`\n")
	res := b.run()
	res.check(t, Success, ExitClean, "you said: wake up; $(touch /nowhere) `x`", "")
	if res.ExitCode != 0 || res.Stderr != "note" || len(res.Notes) > 0 {
		t.Errorf("%+v", res)
	}
	if held, p, err := Probe(b.Dir); held || err != nil || p.PID == 0 || p.Boot == "" || p.Start == "" {
		t.Errorf("after the end: held %v, %+v, %v", held, p, err)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("SECRET_OF_THE_RUNNER", "x")
	b := newFixture(t, `env; pwd`)
	b.Config.Env = map[string]string{"PATH": "/usr/bin:/bin", "COLOUR": "blue"}
	b.Attempt.Env = map[string]string{"AGENTSTATELOOP_HANDLE": "goulard3120", "COLOUR": "red"}
	b.Extra = []string{"--more"}
	res := b.run()
	got := strings.Split(res.Text, "\n")
	for _, want := range []string{
		"PATH=/usr/bin:/bin:" + filepath.Dir(b.Self), "COLOUR=red", "AGENTSTATELOOP_HANDLE=goulard3120",
		"AGENTSTATELOOP_CONTEXT=" + b.Dir + "/context", "AGENTSTATELOOP_OUTPUT=" + b.Dir + "/output",
		"AGENTSTATELOOP_TURN=t1", "AGENTSTATELOOP_EPOCH=1", b.Workdir,
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, res.Text)
		}
	}
	if strings.Contains(res.Text, "SECRET_OF_THE_RUNNER") {
		t.Error("the runner's environment leaked")
	}
}

// TestAgentHasDefaultSignalActions checks that the agent's program has the default actions of HUP and
// INT, also if we ignore them.
func TestAgentHasDefaultSignalActions(t *testing.T) {
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT) // as under nohup, in the background of a script
	defer signal.Reset(syscall.SIGHUP, syscall.SIGINT)
	b := newFixture(t, `for s in HUP INT; do trap "echo $s" $s; kill -$s $$; done`)
	b.run().check(t, Success, ExitClean, "HUP\nINT", "")
}

// TestEventsFile checks that the log of an attempt begins with its start and ends with its end, and
// has neither the prompt nor the environment.
func TestEventsFile(t *testing.T) {
	b := newFixture(t, `echo working; echo oops >&2; exit 3`)
	b.Prompt = []byte("the-prompt")
	b.Config.Env = map[string]string{"TOKEN": "the-token"}
	b.Extra = []string{"--plan"}
	b.run().check(t, Failed, ExitError, "working", "exit status 3: oops")

	text := readFile(t, b.Dir, "events.jsonl")
	if strings.Contains(text, "the-prompt") || strings.Contains(text, "the-token") {
		t.Errorf("a secret in\n%s", text)
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	var first startLine
	var middle eventLine
	var last endLine
	for i, v := range []any{&first, &middle, &last} {
		if err := json.Unmarshal([]byte(lines[i]), v); err != nil {
			t.Fatal(err)
		}
	}
	if first.PID == 0 || first.Version != "test" || !slices.Equal(first.Argv, []string{b.Command[0], "--plan"}) {
		t.Errorf("first %+v", first)
	}
	if middle.Kind != TextDelta || middle.Text != "working\n" {
		t.Errorf("middle %+v", middle)
	}
	if last.Exit != ExitError || last.ExitCode != 3 || last.Stderr != "oops" || last.Status != Failed {
		t.Errorf("last %+v", last)
	}
}

// TestSecretsAreRedacted checks that a known secret that the agent prints, in one piece or in two, is
// redacted in its answer, in a reason and in our files.
func TestSecretsAreRedacted(t *testing.T) {
	const key, stream = "sk-canary-0123456789", `{"type":"result","is_error":true,"result":"Invalid API key sk-canary-0123456789"}`
	for name, c := range map[string]struct{ runner, script, text, reason string }{
		"answer": {Exec, `printf 'key sk-cana'; sleep 0.1; printf 'ry-0123456789.'`, "key ***.", ""},
		"stderr": {Exec, `echo "no: $API_KEY" >&2; printf %s "$API_KEY" | base64 >&2; exit 1`, "", "exit status 1: ***"},
		"stream": {Claude, `echo '` + stream + `'; exit 1`, "", "Invalid API key ***"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFixture(t, c.script)
			b.Runner, b.Config.Env, b.Secrets = c.runner, map[string]string{"API_KEY": key}, new(secret.Known)
			b.Secrets.Learn("api key", key)
			res := b.run()
			if res.Text != c.text || !strings.HasPrefix(res.Reason, c.reason) {
				t.Errorf("%q, %q", res.Text, res.Reason)
			}
			all := fmt.Sprint(res, res.Credential, readFile(t, b.Dir, "events.jsonl"), readFile(t, b.Dir, "live.json"))
			for _, form := range secret.Disguises(key) {
				if strings.Contains(all, form) {
					t.Errorf("%s is in\n%s", form, all)
				}
			}
		})
	}
}

// TestKilledBeforeExec checks that a child that is killed before it becomes the agent counts as a
// killed agent.
func TestKilledBeforeExec(t *testing.T) {
	b := newFixture(t, "echo hello")
	b.Self = writeScript(t, b.Workdir, "self", "kill -KILL $$\n")
	b.run().check(t, Failed, ExitError, "", "signal: killed")
}

func TestEventsFileIsBounded(t *testing.T) {
	b := newFixture(t, `head -c 3000000 /dev/zero | tr '\0' x`)
	b.MaxEvents = 1000
	b.run()
	text := readFile(t, b.Dir, "events.jsonl")
	if len(text) > 100<<10 || !strings.Contains(text, `"kind":"end"`) {
		t.Errorf("%d bytes", len(text))
	}
}

func TestCannotStart(t *testing.T) {
	for name, c := range map[string]struct {
		break_ func(b *fixture)
		reason string
	}{
		"not in path":    {func(b *fixture) { b.Command = []string{"no-such-agent"} }, "command not found: no-such-agent is not in PATH"},
		"no such file":   {func(b *fixture) { b.Command = []string{"./missing.sh"} }, "missing.sh"},
		"not executable": {func(b *fixture) { os.Chmod(b.Command[0], 0o644) }, "chmod +x"},
		"a folder":       {func(b *fixture) { b.Command = []string{b.Workdir} }, "not executable"},
		"no command":     {func(b *fixture) { b.Command = nil }, "turn.command is empty"},
		"no workdir":     {func(b *fixture) { b.Workdir = "/no/such/dir" }, `workdir "/no/such/dir" is not a folder`},
		"no program":     {func(b *fixture) { os.WriteFile(b.Command[0], []byte{0x7f, 'E', 'L', 'F', 0}, 0o755) }, "exec format error"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFixture(t, "echo hi")
			c.break_(b)
			b.run().check(t, Failed, ExitError, "", c.reason)
			if log := readFile(t, b.Dir, "events.jsonl"); !strings.Contains(log, `"kind":"end"`) {
				t.Errorf("log %s", log)
			}
		})
	}
}

func TestInternalError(t *testing.T) {
	b := newFixture(t, "echo hi")
	b.Dir = filepath.Join(b.Dir, "gone")
	if res, err := b.Config.Run(t.Context(), b.Attempt, nil); err == nil {
		t.Errorf("an attempt without its folder ran: %+v", res)
	}
	b = newFixture(t, "echo hi")
	b.Self = "/bin/false" // an installation that is broken
	if res, err := b.Config.Run(t.Context(), b.Attempt, nil); err == nil {
		t.Errorf("an agent that never began has a result: %+v", res)
	}
}

func TestNoAnswer(t *testing.T) {
	t.Parallel()
	newFixture(t, `exit 0`).run().check(t, Failed, ExitClean, "", "ended without an answer")
	newFixture(t, `echo 'no model' >&2`).run().check(t, Failed, ExitClean, "", "ended without an answer: no model")
	newFixture(t, `printf ' \n\t\n'`).run().check(t, Failed, ExitClean, "", "ended without an answer")
	res := newFixture(t, `echo x > "$AGENTSTATELOOP_OUTPUT/report.txt"`).run()
	res.check(t, Partial, ExitClean, "", "wrote files but no answer")
}

func TestDiesBySignal(t *testing.T) {
	res := newFixture(t, `echo half; kill -9 $$`).run()
	res.check(t, Failed, ExitError, "half", "signal: killed")
}

func TestBinaryOutput(t *testing.T) {
	res := newFixture(t, `printf 'a\000b\377\033[1mc\r\nd'`).run()
	res.check(t, Success, ExitClean, "ab\uFFFD[1mc\nd", "")
}

// TestLongAnswer checks that an answer longer than MaxText goes into a file, and that one longer than
// MaxOutput is truncated with a reason. The agent is never blocked.
func TestLongAnswer(t *testing.T) {
	t.Parallel()
	b := newFixture(t, `head -c 300000 /dev/zero | tr '\0' x`)
	b.MaxText = 1000
	res := b.run()
	res.check(t, Success, ExitClean, strings.Repeat("x", 1000), "")
	if got := readFile(t, b.Dir, res.TextFile); got != strings.Repeat("x", 300000) {
		t.Errorf("file of %d bytes", len(got))
	}

	flood := 300_000_000
	if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") == "" {
		flood /= 10
	}
	b = newFixture(t, fmt.Sprintf(`head -c %d /dev/zero`, flood))
	b.MaxText, b.MaxOutput, b.MaxEvents = 1000, 5000, 100000
	res = b.run()
	res.check(t, Failed, ExitClean, "", "truncated at 5000 of") // all of it unprintable
	b = newFixture(t, fmt.Sprintf(`head -c %d /dev/zero | tr '\0' x`, flood))
	b.MaxText, b.MaxOutput, b.MaxEvents = 1000, 5000, 100000
	res = b.run()
	res.check(t, Partial, ExitClean, strings.Repeat("x", 1000), fmt.Sprintf("truncated at 5000 of %d bytes", flood))
	if got := readFile(t, b.Dir, res.TextFile); len(got) != 5000 {
		t.Errorf("file of %d bytes", len(got))
	}
	if info, err := os.Stat(filepath.Join(b.Dir, "events.jsonl")); err != nil || info.Size() > 1<<20 {
		t.Errorf("events.jsonl %v %v", info.Size(), err)
	}
}

func TestTruncateInsideCharacter(t *testing.T) {
	b := newFixture(t, `printf 'abéé'`)
	b.MaxText = 3
	b.run().check(t, Success, ExitClean, "ab", "")
}

// TestLostEpoch checks that a runner that lost its epoch has no result.
func TestLostEpoch(t *testing.T) {
	lost := errors.New("the epoch is lost")
	b := newFixture(t, `echo half; exec sleep 1000`)
	if _, err := b.runUntil("half", lost); !errors.Is(err, lost) {
		t.Errorf("error %v", err)
	}
	wantFree(t, b.Dir)
}

// TestTermThenKill checks that TERM goes to the whole group, and that KILL follows if the group does
// not end.
func TestTermThenKill(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		script, text string
		grace        time.Duration
	}{
		{`echo up; exec sleep 1000`, "up", 10 * time.Second},
		{`trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done`, "up\nbye", 10 * time.Second},
		{`trap '' TERM; echo up; while :; do sleep 0.05; done`, "up", 200 * time.Millisecond},
		{`(trap '' TERM; echo up; while :; do sleep 0.05; done) & wait`, "up", 200 * time.Millisecond},
	} {
		b := newFixture(t, c.script)
		b.Grace = c.grace
		b.stopAt("up").check(t, Canceled, ExitStopped, c.text, "stopped")
		wantFree(t, b.Dir)
	}
}

// TestRemainingProcesses checks that other processes in the group of the agent end with it, and that
// Run does not wait for a process that left the group, even if it keeps our pipes open.
func TestRemainingProcesses(t *testing.T) {
	t.Parallel()
	b := newFixture(t, `sleep 1000 & echo done`)
	b.run().check(t, Success, ExitClean, "done", "")
	wantFree(t, b.Dir)

	b = newDaemonFixture(t, `echo done`)
	res := b.run()
	res.check(t, Success, ExitClean, "done", "")
	if len(res.Notes) != 1 || !strings.Contains(res.Notes[0], "may still run") {
		t.Errorf("notes %q", res.Notes)
	}
	if held, _, _ := Probe(b.Dir); !held {
		t.Error("a daemon that inherited alive does not hold it")
	}
}

// startedByUs matches the stack of a goroutine that this package has started, and not a test.
var startedByUs = regexp.MustCompile(`created by agentstateloop/turn\.[^T]`)

// TestDaemonKeepsNoGoroutines checks that our goroutines end although a daemon keeps the pipes open.
func TestDaemonKeepsNoGoroutines(t *testing.T) {
	newDaemonFixture(t, `echo done`).run()
	stacks := make([]byte, 1<<20)
	await(t, "our goroutines end", func() bool { return !startedByUs.Match(stacks[:runtime.Stack(stacks, true)]) })
}

func TestListOutput(t *testing.T) {
	b := newFixture(t, `cd "$AGENTSTATELOOP_OUTPUT"; echo one > b.txt; mkdir sub; echo two > sub/a.txt
ln -s /etc/passwd link; mkfifo pipe; touch "$(printf 'new\nline')"; echo done`)
	res := b.run()
	res.check(t, Success, ExitClean, "done", "")
	if !slices.Equal(res.Output, []string{"b.txt", "sub/a.txt"}) || len(res.Notes) != 3 {
		t.Errorf("output %q, notes %q", res.Output, res.Notes)
	}
	f, err := OpenOutput(b.Dir, "sub/a.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var got bytes.Buffer
	if got.ReadFrom(f); got.String() != "two\n" {
		t.Errorf("content %q", got.String())
	}
	for _, name := range []string{"link", "pipe", "sub", "../prompt", "/etc/passwd"} {
		if f, err := OpenOutput(b.Dir, name); err == nil {
			t.Errorf("%s was opened as %s", name, f.Name())
		}
	}
}

func TestMissingOutputFolder(t *testing.T) {
	t.Parallel()
	res := newFixture(t, `rmdir "$AGENTSTATELOOP_OUTPUT"; echo done`).run()
	res.check(t, Success, ExitClean, "done", "")
	if len(res.Notes) != 1 {
		t.Errorf("notes %q", res.Notes)
	}
	b := newFixture(t, `rmdir "$AGENTSTATELOOP_OUTPUT"; ln -s /etc "$AGENTSTATELOOP_OUTPUT"; echo done`)
	res = b.run()
	res.check(t, Success, ExitClean, "done", "")
	if len(res.Notes) != 1 || len(res.Output) != 0 {
		t.Errorf("output %q, notes %q", res.Output, res.Notes)
	}
	if _, err := OpenOutput(b.Dir, "passwd"); err == nil {
		t.Error("the link was followed")
	}
	newFixture(t, `rm -rf "$(dirname "$AGENTSTATELOOP_OUTPUT")"; echo done`).run().check(t, Success, ExitClean, "done", "")
}

// TestDiskFull checks that a full disk loses the log, and not the answer.
func TestDiskFull(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	log := &eventLog{w: full, room: 1 << 20}
	log.line(startLine{})
	log.event(time.Now(), Event{Kind: TextDelta, Text: "x"})
	res := Result{Status: Success, Text: "x"}.closeLog(log)
	res.check(t, Success, "", "x", "")
	if len(res.Notes) != 1 || !strings.Contains(res.Notes[0], "no space left") {
		t.Errorf("notes %q", res.Notes)
	}

	s := spool{path: "/dev/full", maxMem: 3, maxFile: 100}
	s.write("abc")
	s.write("def")
	if text, _ := s.close(); text != "abc" || !s.truncated() {
		t.Errorf("%q, cut %v", text, s.truncated())
	}
}
