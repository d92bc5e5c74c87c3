package commands

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"agentstateloop/internal/osfile"
	"agentstateloop/internal/testkit"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// requireReal names the environment variable that turns a skip because of a
// missing real server into a failure.
const requireReal = "AGENTSTATELOOP_REQUIRE_REAL"

// part returns how many of something are tried, or how far it is from one that is tried to
// the next: the whole where all that is real is required, else the other number.
func part(whole, short int) int {
	if os.Getenv(requireReal) != "" {
		return whole
	}
	return short
}

// buildProgram puts the program into dir and returns its path. Tests that kill the
// program or let cron start it need it. Each has a link of its own, by whose path its
// processes are found. A copy could be busy: what another test starts meanwhile may
// inherit the descriptor that writes it.
func buildProgram(t testing.TB, dir string) string {
	t.Helper()
	file, err := built.program()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, name)
	if err := os.Link(file, program); err != nil {
		t.Fatal(err)
	}
	return program
}

// built is the program, which is built once, with the tag of the README, and removed when
// the tests have run. Its home directory is $TEST_HOME, if that is set.
var built oneBuild

type oneBuild struct {
	once sync.Once
	dir  string
	err  error
}

func (b *oneBuild) program() (file string, err error) {
	b.once.Do(func() {
		// In the folder that T.TempDir uses too: links do not leave a file system.
		if b.dir, b.err = os.MkdirTemp(os.Getenv("GOTMPDIR"), name+"-build-"); b.err != nil {
			return
		}
		if out, err := exec.Command("go", "build", "-tags", "urfave_cli_no_docs", "-ldflags", "-s -w -X agentstateloop/internal/account.testHome=TEST_HOME", "-o", filepath.Join(b.dir, name), "..").CombinedOutput(); err != nil {
			b.err = fmt.Errorf("build: %w\n%s", err, out)
		}
	})
	return filepath.Join(b.dir, name), b.err
}

// tests are the tests, and what they leave behind.
type tests struct{ m *testing.M }

// Run runs the tests with a home directory of their own, and removes it and the program
// that they have built.
func (s tests) Run() int {
	home, err := os.MkdirTemp("", name+"-home-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitError
	}
	os.Setenv("TEST_HOME", home)
	if os.Getenv("HOME") == "" { // passwd may not list the user
		os.Setenv("HOME", home)
	}
	defer func() { os.RemoveAll(built.dir); os.RemoveAll(home) }()
	return s.m.Run()
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

// run runs a command until it ends or ctx does. killed reports whether a signal
// ended it.
func (i installedAgent) run(ctx context.Context, args ...string) (out string, code int, killed bool) {
	cmd := exec.CommandContext(ctx, i.program, append([]string{"--config", filepath.Join(i.dir, "agent.toml")}, args...)...)
	cmd.WaitDelay = time.Second // a process that the command started may hold the output open
	data, _ := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		return "it could not be started", -1, ctx.Err() != nil
	}
	status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return string(data), cmd.ProcessState.ExitCode(), ok && status.Signaled()
}

// processes returns the ids of the processes that run the program, detached polls
// included. Without /proc it returns none.
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

// slowScript is an agent that answers differently in each attempt. A test can
// tell two deliverables of one message apart.
const slowScript = `#!/bin/sh
cat >/dev/null
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
		held, p, err := turn.Probe(filepath.Dir(file))
		if err == nil && held && p.PID > 1 {
			syscall.Kill(-p.PID, syscall.SIGKILL)
		}
	}
}

// countTaskLines returns the number of task lines in the history, by message key.
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
