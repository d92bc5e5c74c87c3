package commands

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"agentstateloop/internal/osfile"
	"agentstateloop/internal/testkit"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail/message"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// requireReal names the environment variable that turns a skip because of a
// missing real server into a failure.
const requireReal = "AGENTSTATELOOP_REQUIRE_REAL"

// part returns a number of trials, or the distance between two trials: the first one if the real
// servers are required, else the second one, for a short run.
func part(whole, short int) int {
	if os.Getenv(requireReal) != "" {
		return whole
	}
	return short
}

// buildProgram puts the program into dir and returns its path, for tests that kill the program
// or let cron start it. Each test has a link of its own, by whose path its processes are found. A
// copy could be busy: a process that another test starts may inherit the descriptor that writes it.
func buildProgram(t testing.TB, dir string) string {
	t.Helper()
	file, err := sharedBuild.program()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, name)
	if err := os.Link(file, program); err != nil {
		t.Fatal(err)
	}
	return program
}

// sharedBuild is the program, which is built once, with the tag of the README, and removed when
// the tests have run. Its home directory is $TEST_HOME, if that is set.
var sharedBuild programBuild

type programBuild struct {
	once sync.Once
	dir  string
	err  error
}

func (b *programBuild) program() (file string, err error) {
	b.once.Do(func() {
		// In the folder that T.TempDir uses too: links do not leave a file system.
		if b.dir, b.err = os.MkdirTemp(os.Getenv("GOTMPDIR"), name+"-build-"); b.err != nil {
			return
		}
		if out, err := exec.Command("go", "build", "-tags", "urfave_cli_no_docs,nethttpomithttp2", "-ldflags", "-s -w -funcalign=8 -X agentstateloop/internal/account.testHome=TEST_HOME", "-o", filepath.Join(b.dir, name), "..").CombinedOutput(); err != nil {
			b.err = fmt.Errorf("build: %w\n%s", err, out)
		}
	})
	return filepath.Join(b.dir, name), b.err
}

// testRun is a run of all tests of the package.
type testRun struct{ m *testing.M }

// Run runs the tests with a home directory of their own, and removes it and the program
// that they have built.
func (r testRun) Run() int {
	home, err := os.MkdirTemp("", name+"-home-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitError
	}
	os.Setenv("TEST_HOME", home)
	if os.Getenv("HOME") == "" { // passwd may not list the user
		os.Setenv("HOME", home)
	}
	defer func() { os.RemoveAll(sharedBuild.dir); os.RemoveAll(home) }()
	return r.m.Run()
}

// tempDir returns a new folder for the state of an agent. Only root can remove the
// read-only folders in it.
func tempDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() { osfile.MakeWritable(dir) })
	return dir
}

// installedAgent is the built program, and the folder with its agent.toml.
type installedAgent struct{ dir, program string }

// newInstalledAgent makes an agent with mail, whose configuration ends with more.
func newInstalledAgent(t testing.TB, servers *mailtest.Servers, more string) installedAgent {
	t.Helper()
	dir := tempDir(t)
	writeAgent(t, dir, servers, more)
	return installedAgent{dir, buildProgram(t, dir)}
}

// command returns a command of the agent that was not started. It is killed when ctx ends.
func (i installedAgent) command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, i.program, append([]string{"--config", filepath.Join(i.dir, "agent.toml")}, args...)...)
}

// poll polls once. It fails the test if the poll does not exit 0.
func (i installedAgent) poll(t testing.TB) {
	t.Helper()
	if out, err := i.command(t.Context(), "poll", "--quiet").CombinedOutput(); err != nil {
		t.Fatalf("poll: %v\n%s", err, out)
	}
}

// store returns the state directory of the agent.
func (i installedAgent) store() *store.Store {
	return &store.Store{Dir: filepath.Join(i.dir, "state"), Agent: "goulard3120"}
}

// startServer starts a command whose standard output is free, and returns the first line that it
// prints.
func startServer(t *testing.T, cmd *exec.Cmd) (line string) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		line, err = bufio.NewReader(out).ReadString('\n')
	}
	if err != nil {
		t.Fatalf("%q does not start: %v", cmd.Args, err)
	}
	return strings.TrimSpace(line)
}

// run runs a command until it ends or ctx does. killed reports whether a signal
// ended it.
func (i installedAgent) run(ctx context.Context, args ...string) (out string, code int, killed bool) {
	cmd := i.command(ctx, args...)
	cmd.WaitDelay = time.Second // a process that the command started may hold the output open
	data, _ := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		return "it could not be started", -1, ctx.Err() != nil
	}
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return string(data), cmd.ProcessState.ExitCode(), ok && status.Signaled()
}

// processes returns the ids of the processes that run the program, detached polls
// included. Without /proc the list is empty.
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

// waitForProcesses waits until no process runs the program.
func (i installedAgent) waitForProcesses() {
	for len(i.processes()) > 0 {
		<-time.After(10 * time.Millisecond)
	}
}

// writeAgent writes into dir a configuration with mail that ends with more, and
// its password file.
func writeAgent(t testing.TB, dir string, servers *mailtest.Servers, more string) {
	t.Helper()
	config := agentSection +
		fmt.Sprintf("[mail]\naddress = \"goulard@example.org\"\n[mail.imap]\nhost = %q\npassword_file = \"secret\"\nca_file = %q\n[mail.smtp]\nhost = %q\nca_file = %[2]q\n",
			servers.IMAPTLS, servers.CAFile, servers.SMTPTLS) +
		"[trust]\nrequire = \"from\"\n" + more
	writeFiles(t, dir, map[string]string{"agent.toml": config, "secret": servers.Password})
}

const (
	// agentSection begins the configuration of an agent.
	agentSection = "[agent]\nhandle = \"goulard3120\"\noperator = [\"operator@example.com\"]\nstate_dir = \"state\"\n"
	// noSchedule is the section of an agent without a crontab line.
	noSchedule = "[schedule]\nmode = \"none\"\n"
)

// deliverMail puts a mail of the operator for the agent into the mailbox.
func deliverMail(t testing.TB, servers *mailtest.Servers, id string) {
	t.Helper()
	raw := "From: operator@example.com\r\nSubject: @goulard3120 work\r\nMessage-ID: <" + id + "@example.com>\r\n\r\ndo it\r\n"
	if _, err := servers.Append([]byte(raw), time.Now()); err != nil {
		t.Fatal(err)
	}
}

// sentReplies returns the answers that were mailed, by the Message-ID they answer, and checks that
// all copies of an answer are the same.
func sentReplies(t testing.TB, servers *mailtest.Servers) map[string][]byte {
	t.Helper()
	replies := map[string][]byte{}
	for _, m := range servers.Sent() {
		h := message.ParseHeader(m.Raw)
		if !strings.HasPrefix(h.MessageID, "<reply.") {
			continue
		}
		if first, ok := replies[h.InReplyTo]; ok && !bytes.Equal(first, m.Raw) {
			t.Errorf("two different answers to %s:\n%s\n---\n%s", h.InReplyTo, first, m.Raw)
		}
		replies[h.InReplyTo] = m.Raw
	}
	return replies
}

// slowScript is an agent that answers differently in each attempt, so that a test can
// distinguish two deliverables of one message.
const slowScript = `cat >/dev/null
sleep 0.0$(($$ % 9))
echo "attempt of process $$"
`

// killAgents kills the process group of each agent that runs a turn in dir.
func killAgents(t *testing.T, dir string) {
	t.Helper()
	alive, err := filepath.Glob(filepath.Join(dir, "state", "turns", "*", "*", "alive"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range alive {
		locked, p, err := turn.Probe(filepath.Dir(file))
		if err == nil && locked && p.PID > 1 {
			syscall.Kill(-p.PID, syscall.SIGKILL)
		}
	}
}

// countTaskLines returns the number of task lines in the history, by message key.
func countTaskLines(t *testing.T, st *store.Store) map[string]int {
	t.Helper()
	return countLines(t, st, state.LineTask, func(l state.Line) string { return l.Key })
}

// countNudges returns the number of nudges in the history, by their reason.
func countNudges(t *testing.T, st *store.Store) map[string]int {
	t.Helper()
	return countLines(t, st, state.LineNudge, func(l state.Line) string { return l.Reason })
}

// countLines returns the number of history lines of a kind, by their id.
func countLines(t *testing.T, st *store.Store, kind state.LineKind, id func(state.Line) string) map[string]int {
	t.Helper()
	count := map[string]int{}
	for l, err := range st.History() {
		if err != nil {
			t.Fatal(err)
		}
		if l.Kind == kind {
			count[id(l)]++
		}
	}
	return count
}

// writeFiles writes files that only we can read, by their names in dir, and their folders.
func writeFiles(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for file, text := range files {
		writeFile(t, filepath.Join(dir, file), text)
	}
}

// writeFile writes a file that only we can read, and its folder, and returns its path.
func writeFile(t testing.TB, path, text string) string {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// writeScript writes a program for the shell.
func writeScript(t testing.TB, path, script string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = testkit.WriteProgram(path, "#!/bin/sh\n"+script+"\n")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// readFile returns the content of a file as a string.
func readFile(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
