package commands

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"agentstateloop/mail/mailtest"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// requireReal makes a missing real server a failure instead of a skip.
const requireReal = "AGENTSTATELOOP_REQUIRE_REAL"

// build makes the program itself, for tests that kill it or let cron start it.
func buildProgram(t testing.TB, dir string) string {
	t.Helper()
	program := filepath.Join(dir, name)
	if out, err := exec.Command("go", "build", "-o", program, "..").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return program
}

// installed is the program itself, and an agent.toml beside it.
type installedAgent struct{ dir, program string }

// run runs a command to its end, or to that of ctx. killed says that it did not
// end by itself.
func (i installedAgent) run(ctx context.Context, args ...string) (out string, code int, killed bool) {
	cmd := exec.CommandContext(ctx, i.program, append([]string{"--config", filepath.Join(i.dir, "agent.toml")}, args...)...)
	cmd.WaitDelay = time.Second // what it has started may hold its output open
	data, _ := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		return "it could not be started", -1, ctx.Err() != nil
	}
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return string(data), cmd.ProcessState.ExitCode(), ok && status.Signaled()
}

// processes are all that run the program, detached polls included; none where
// there is no /proc.
func (i installedAgent) processes() (pids []int) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		if exe, err := os.Readlink(link); err == nil && exe == i.program {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(link))); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// settle waits until the last of them has ended.
func (i installedAgent) waitForProcesses() {
	for len(i.processes()) > 0 {
		<-time.After(10 * time.Millisecond)
	}
}

// layAgent writes a configuration with mail, and its secret, into dir.
func writeAgent(t testing.TB, dir string, servers *mailtest.Servers, more string) {
	t.Helper()
	config := "[agent]\nhandle = \"goulard3120\"\noperator = [\"operator@example.com\"]\nstate_dir = \"state\"\n" +
		fmt.Sprintf("[mail]\naddress = \"goulard@example.org\"\n[mail.imap]\nhost = %q\npassword_file = \"secret\"\nca_file = %q\n[mail.smtp]\nhost = %q\nca_file = %[2]q\n",
			servers.IMAPTLS, servers.CAFile, servers.SMTPTLS) +
		"[trust]\nrequire = \"from\"\n" + more
	for file, text := range map[string]string{"agent.toml": config, "secret": servers.Password} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// slowScript answers differently at every attempt, so that two deliverables of
// one message could be told apart.
const slowScript = `#!/bin/sh
cat >/dev/null
sleep 0.0$(($$ % 9))
echo "attempt of process $$"
`

// killAgents kills the process group of whatever agent runs below dir.
func killAgents(t *testing.T, dir string) {
	t.Helper()
	alive, err := filepath.Glob(filepath.Join(dir, "state", "turns", "*", "*", "alive"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range alive {
		held, p, err := turn.Probe(filepath.Dir(file))
		if err == nil && held && p.PID > 1 {
			syscall.Kill(-p.PID, syscall.SIGKILL)
		}
	}
}

// tasks counts the task lines of each message.
func countTaskLines(t *testing.T, st *store.Store) map[string]int {
	t.Helper()
	count := map[string]int{}
	for l, err := range st.History() {
		if err != nil {
			t.Fatal(err)
		}
		if l.Kind == state.LineTask {
			count[l.Key]++
		}
	}
	return count
}

func readFile(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
