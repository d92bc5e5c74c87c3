package turn

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"agentstateloop/internal/account"
	"agentstateloop/turn/box"
)

// newSandboxFixture returns an attempt of a script that runs in a sandbox.
func newSandboxFixture(t *testing.T, script string) *fixture {
	t.Helper()
	if _, err := box.Bubblewrap(t.Context(), self(t)); err != nil {
		if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	b := newFixture(t, script)
	b.Box = &Sandbox{}
	return b
}

// TestSandboxedAgent checks that an agent in a sandbox reads its prompt and its context, and writes
// into its folder and its output folder.
func TestSandboxedAgent(t *testing.T) {
	b := newSandboxFixture(t, `cat; pwd; cat "$AGENTSTATELOOP_CONTEXT/message.txt"; echo file >"$AGENTSTATELOOP_OUTPUT/report.txt"; echo kept >kept; echo scratch >"$HOME/scratch"; touch "$AGENTSTATELOOP_CONTEXT/more" 2>/dev/null || echo read-only; echo oops >&2`)
	if err := Prepare(b.Dir, []File{{Name: "message.txt", Body: strings.NewReader("the message\n")}}, ""); err != nil {
		t.Fatal(err)
	}
	res := b.run()
	res.check(t, Success, ExitClean, "hello\n"+b.Workdir+"\nthe message\nread-only", "")
	if len(res.Output) != 1 || res.Stderr != "oops" || readFile(t, b.Workdir, "kept") != "kept\n" {
		t.Errorf("%+v", res)
	}
	b = newSandboxFixture(t, `exit 7`)
	b.run().check(t, Failed, ExitError, "", "exit status 7")
}

// TestSandboxHidesUngrantedPaths checks that paths that are not granted do not exist in a sandbox.
func TestSandboxHidesUngrantedPaths(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	writeConfig(t, secret, "hunter2")
	outside := account.Environ()["HOME"]
	victim := newBystander(t, &unix.SysProcAttr{Setsid: true})
	b := newSandboxFixture(t, fmt.Sprintf(`cat '%s' /etc/shadow "${AGENTSTATELOOP_CONTEXT%%/*}/process" "${AGENTSTATELOOP_CONTEXT%%/*}/alive" '%s/.bashrc'
ls "${AGENTSTATELOOP_CONTEXT%%/*}"
kill -9 %d
echo x >"${AGENTSTATELOOP_CONTEXT%%/*}/process"
for fd in /proc/self/fd/*; do case $(readlink $fd) in *alive*) echo INHERITED;; esac; done
echo x >&100`, secret, outside, victim.PID))
	b.Box.Network = true
	res := b.run()
	for _, leak := range []string{"hunter2", "root:", "boot", "live.json", "INHERITED"} {
		if strings.Contains(res.Text, leak) {
			t.Errorf("%q in %q", leak, res.Text)
		}
	}
	victim.wantAlive(t)
	if n := strings.Count(res.Stderr, "No such file"); n < 4 {
		t.Errorf("stderr:\n%s", res.Stderr)
	}
}

// TestSandboxGrants checks that granted paths exist in a sandbox, under their own names.
func TestSandboxGrants(t *testing.T) {
	folder := t.TempDir()
	writeConfig(t, filepath.Join(folder, "note"), "granted")
	b := newSandboxFixture(t, fmt.Sprintf(`cat '%s/note'; echo x >'%s/new' && echo wrote; true`, folder, folder))
	b.Box.Read = []string{folder}
	b.run().check(t, Success, ExitClean, "granted", "")
	b = newSandboxFixture(t, fmt.Sprintf(`cat '%s/note'; echo x >'%s/new' && echo wrote`, folder, folder))
	b.Box.Write = []string{folder}
	b.run().check(t, Success, ExitClean, "grantedwrote", "")
	b = newSandboxFixture(t, `echo never`)
	b.Box.Write = []string{filepath.Join(folder, "nowhere")}
	b.run().check(t, Failed, ExitError, "", "cannot create its sandbox")
}

// TestNoAgentWithoutSandbox checks that no agent starts if its sandbox cannot be created.
func TestNoAgentWithoutSandbox(t *testing.T) {
	b := newFixture(t, `echo never >ran; echo never`)
	b.Box, b.Self = &Sandbox{}, writeScript(t, t.TempDir(), "self", "exit 1\n")
	b.run().check(t, Failed, ExitError, "", "no sandbox available")
	if _, err := os.Stat(filepath.Join(b.Workdir, "ran")); err == nil {
		t.Error("it ran without a sandbox")
	}
}

// TestAskVersionInSandbox checks that an agent is asked for its version only in its sandbox.
func TestAskVersionInSandbox(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "hit")
	b := newSandboxFixture(t, fmt.Sprintf(`[ "$1" = --version ] || exit 9
echo hit >'%s'
cat '%s' 2>/dev/null || echo 2.1.0
echo kept >kept`, outside, writeScript(t, t.TempDir(), "secret", "hunter2")))
	if got, err := b.AskVersion(t.Context()); err != nil || got != "2.1.0" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := os.Stat(outside); err == nil || readFile(t, b.Workdir, "kept") != "kept\n" {
		t.Error("it ran elsewhere")
	}
	b.Self = writeScript(t, t.TempDir(), "self", "exit 1\n")
	if _, err := b.AskVersion(t.Context()); err == nil || !strings.Contains(err.Error(), "no sandbox available") {
		t.Errorf("without a sandbox: %v", err)
	}
}

// TestStopSandboxedAgent checks that an agent in a sandbox ends with all processes that it started.
func TestStopSandboxedAgent(t *testing.T) {
	const daemon = `(setsid sleep 987654 &) ; echo up; `
	gone := func() {
		t.Helper()
		await(t, "the daemon ends", func() bool { return !isRunning("sleep\x00987654\x00") })
	}
	b := newSandboxFixture(t, daemon+`exec sleep 1000`)
	b.stopAt("up").check(t, Canceled, ExitStopped, "up", "stopped")
	gone()

	b = newSandboxFixture(t, daemon+`trap '' TERM; while :; do sleep 0.05; done`)
	b.Grace = 300 * time.Millisecond
	b.stopAt("up").check(t, Canceled, ExitStopped, "up", "stopped")
	gone()

	b = newSandboxFixture(t, daemon)
	b.run().check(t, Success, ExitClean, "up", "")
	gone()
	wantFree(t, b.Dir)
}

// isRunning reports whether a process with this command line exists.
func isRunning(cmdline string) bool {
	for _, p := range processes() {
		if got, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid)); err == nil && string(got) == cmdline {
			return true
		}
	}
	return false
}

// TestSandboxedOrphan checks that the orphan of a killed runner holds its attempt from within its
// sandbox, and that the watchdog ends all its processes.
func TestSandboxedOrphan(t *testing.T) {
	newSandboxFixture(t, "") // or skip
	b := orphanFrom(t, newSandboxFixture(t, `(setsid sleep 987655 &) ; echo up; trap '' TERM; while :; do sleep 0.05; done`))
	held, p, err := Probe(b.Dir)
	if !held || p.PID == 0 || err != nil {
		t.Fatalf("held %v, %+v, %v", held, p, err)
	}
	if _, err := b.Config.Run(t.Context(), b.Attempt, nil); !errors.Is(err, ErrHeld) {
		t.Errorf("a second run next to an orphan: %v", err)
	}
	wantEnd(t, b.Dir, time.Second, false)
	await(t, "the daemon ends", func() bool { return !isRunning("sleep\x00987655\x00") })
	wantFree(t, b.Dir)
}

// TestSandboxHoldsLock checks that a sandbox ends when only the process that made it is killed.
func TestSandboxHoldsLock(t *testing.T) {
	b := orphanFrom(t, newSandboxFixture(t, `echo up; exec sleep 1000`))
	_, p, _ := Probe(b.Dir)
	if err := unix.Kill(p.PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	await(t, "bubblewrap ends", func() bool { _, err := lookUp(p.PID); return err != nil })
	wantEnd(t, b.Dir, 5*time.Second, false)
}

// TestSandboxHasInstallation checks that a script finds its interpreter and the files of its package.
func TestSandboxHasInstallation(t *testing.T) {
	home := t.TempDir()
	node := filepath.Join(home, "node", "bin")
	modules := filepath.Join(home, "lib", "node_modules")
	for _, dir := range []string{node, filepath.Join(modules, "cli"), filepath.Join(modules, "dep"), filepath.Join(home, "bin")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	writeScript(t, node, "fakenode", `echo "interpreted: $1"; cat "$(dirname "$1")/../dep/text"`+"\n")
	writeConfig(t, filepath.Join(modules, "dep", "text"), "a dependency")
	writeConfig(t, filepath.Join(home, "private"), "hunter2")
	script := filepath.Join(modules, "cli", "cli.js")
	if err := os.WriteFile(script, []byte("#!/usr/bin/env fakenode\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(script, filepath.Join(home, "bin", "agent")); err != nil {
		t.Fatal(err)
	}
	b := newSandboxFixture(t, "")
	b.Command = []string{"agent"}
	b.Config.Env = map[string]string{"PATH": filepath.Join(home, "bin") + ":" + node + ":/usr/bin:/bin"}
	b.run().check(t, Success, ExitClean, "interpreted: "+script+"\na dependency", "")
}

// TestRealAgentsInSandbox checks that the real agents work in the sandbox as they do outside. The
// model's server listens on this machine, so they have its network. Codex cannot create its own
// sandbox for its tools inside of ours.
func TestRealAgentsInSandbox(t *testing.T) {
	newSandboxFixture(t, "") // or skip
	network := &Sandbox{Network: true}
	for _, a := range []realAgent{
		{Claude, "Bash", "command", []string{"--allowedTools", "Bash"}, 529, true, true, network},
		{Codex, "exec_command", "cmd", []string{"--dangerously-bypass-approvals-and-sandbox"}, 503, false, true, network},
		{Gemini, "run_shell_command", "command", []string{"--yolo"}, 503, false, false, network},
	} {
		t.Run(a.runner, func(t *testing.T) { runRealAgentTests(t, a) })
	}
}
