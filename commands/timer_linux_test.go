package commands

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentstateloop/cron/timer"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/internal/testkit/timertest"
	"agentstateloop/turn"
)

// execWord matches a word of ExecStart= as we write it.
var execWord = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// startedBySystemd runs the service of an agent as the user's systemd does with KillMode=process:
// in a process group of its own, with the few variables that a user manager has, until the main
// process ends. Then it kills the group, as launchd would without AbandonProcessGroup. It returns
// the output of the main process and its duration.
func startedBySystemd(t *testing.T, service, home string) (out string, took time.Duration) {
	t.Helper()
	var argv []string
	env := []string{"HOME=" + home, "TEST_HOME=" + home, "USER=you", "LOGNAME=you", "SHELL=/bin/sh", "LANG=C.UTF-8", "XDG_RUNTIME_DIR=/run/user/1000", "INVOCATION_ID=0123456789abcdef0123456789abcdef"}
	for line := range strings.Lines(readFile(t, service)) {
		line = strings.TrimSuffix(line, "\n")
		if value, ok := strings.CutPrefix(line, "Environment="); ok {
			env = append(env, value)
		}
		command, ok := strings.CutPrefix(line, "ExecStart=")
		if !ok {
			continue
		}
		for i, word := range execWord.FindAllString(command, -1) {
			pairs := []string{`\\`, `\`, `\"`, `"`, "%%", "%"}
			if i > 0 {
				pairs = append(pairs, "$$", "$")
			}
			argv = append(argv, strings.NewReplacer(pairs...).Replace(word[1:len(word)-1]))
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env, cmd.Dir, cmd.SysProcAttr = env, home, &syscall.SysProcAttr{Setpgid: true}
	began := time.Now()
	printed, err := cmd.CombinedOutput() // a process that held the output open would delay it
	if err != nil {
		t.Fatalf("%q: %v\n%s", argv, err, printed)
	}
	took = time.Since(began)
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err == nil {
		t.Error("the poll is in the process group of the main process")
	}
	return string(printed), took
}

// TestTimerDuringTurn lets a timer poll an agent, from the units that init wrote, in a folder whose
// name needs escapes. While a turn runs, the main process of the service has ended, so that the
// next minute polls again: it collects a STOP, which ends the turn.
func TestTimerDuringTurn(t *testing.T) {
	t.Parallel()
	home := filepath.Join(tempDir(t), "100% $HOME of you")
	if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	servers := mailtest.StartMemory(t, mailtest.Options{Username: "goulard@example.org"})
	writeAgent(t, home, servers, "[turn]\ncommand = [\"./agent\"]\n[schedule]\nmode = \"systemd\"\n")
	writeScript(t, filepath.Join(home, "agent"), "cat >/dev/null\necho half of it\ntouch started\nexec sleep 300")
	a := installedAgent{home, buildProgram(t, home)}
	m, err := timertest.New(t.TempDir(), home)
	if err != nil {
		t.Fatal(err)
	}
	install := a.command(t.Context(), "init", "--no-network")
	install.Env = append(os.Environ(), "TEST_HOME="+home, "PATH="+m.Bin()+":/usr/bin:/bin")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("init: %v\n%s", err, out)
	}
	service := filepath.Join(home, ".config/systemd/user/agentstateloop-goulard3120.service")
	if names, err := m.Active(); err != nil || len(names) != 1 {
		t.Fatalf("active: %q, %v", names, err)
	}

	tick := func() {
		t.Helper()
		if out, took := startedBySystemd(t, service, home); out != "" || took > 10*time.Second {
			t.Errorf("the service took %v and printed %q", took, out)
		}
	}
	tick() // the baseline
	a.waitForProcesses()
	deliverMail(t, servers, "work")
	if out, err := a.command(t.Context(), "nudge", "--no-poll").CombinedOutput(); err != nil {
		t.Fatalf("nudge: %v\n%s", err, out)
	}
	tick()
	eventually(t, "the turn starts", func() bool { _, err := os.Stat(filepath.Join(home, "started")); return err == nil })
	deliverText(t, servers, "stop", "STOP")
	// An engaged agent is due each minute, and so half a minute from now at the latest.
	eventually(t, "the turn ends", func() bool {
		tick()
		s, err := a.store().Read()
		return err == nil && s.Turn.TurnID == ""
	})
	a.waitForProcesses()
	eventually(t, "the answer is sent", func() bool { return wasSent(servers, "half of it") })
	if alive, _ := filepath.Glob(filepath.Join(home, "state", "turns", "*", "*", "alive")); len(alive) > 0 {
		if locked, _, err := turn.Probe(filepath.Dir(alive[0])); locked || err != nil {
			t.Errorf("the agent still runs: %v, %v", locked, err)
		}
	}
	if got := (timer.Timer{Kind: timer.Systemd, Agent: "goulard3120", Config: filepath.Join(home, "agent.toml"), Home: home}).Missing(); got != "" {
		t.Errorf("at the end: %s", got)
	}
}

// eventually waits for a minute and a half until done.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(90 * time.Second); !done(); time.Sleep(200 * time.Millisecond) { // other processes do it
		if time.Now().After(end) {
			t.Fatalf("after 90 seconds: not yet: %s", what)
		}
	}
}
