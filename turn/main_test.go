package turn

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/osfile"
	"agentstateloop/internal/testkit"
	"agentstateloop/turn/box"
)

// TestMain makes the test binary stand in for our own: the runner starts it as `__attempt`.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == attemptCommand {
		fmt.Fprintln(os.Stderr, Main(os.Args[2:]))
		os.Exit(1)
	}
	if len(os.Args) > 1 && os.Args[1] == box.Stage {
		err := box.Main(os.Args[2:])
		if exit, ok := errors.AsType[box.Exit](err); ok {
			os.Exit(int(exit))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") == "" {
		flag.Set("test.parallel", "8") // these tests mostly wait, unlike the real agents
	}
	if err := testkit.InMemoryWithoutSandboxes(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// fixture is one attempt ready to run.
type fixture struct {
	Config
	Attempt
	t *testing.T
}

// newFixture prepares an attempt of an agent that is this shell script.
func newFixture(t *testing.T, script string) *fixture {
	t.Helper()
	work := t.TempDir()
	program := writeScript(t, work, "agent", script)
	b := &fixture{
		t: t,
		Config: Config{
			Runner: Exec, Command: []string{program}, Workdir: work,
			Timeout: time.Minute, Grace: 10 * time.Second,
			Self: self(t), Version: "test",
		},
		Attempt: Attempt{
			Dir: filepath.Join(removableDir(t), "turns", "t1", "1"), TurnID: "t1", Epoch: 1,
			Prompt: []byte("hello\n"),
		},
	}
	if err := Prepare(b.Dir, nil, ""); err != nil {
		t.Fatal(err)
	}
	return b
}

// removableDir returns a temporary folder that is removed with the read-only folders in it.
func removableDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() { osfile.MakeWritable(dir) })
	return dir
}

func self(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

func writeScript(t *testing.T, dir, name, script string) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := testkit.WriteProgram(file, "#!/bin/sh\n"+script); err != nil {
		t.Fatal(err)
	}
	return file
}

// run runs the attempt to its end.
func (b *fixture) run() Result {
	b.t.Helper()
	res, err := b.Config.Run(b.t.Context(), b.Attempt, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return res
}

// runUntil runs the attempt and cancels it with cause when the agent has
// printed want.
func (b *fixture) runUntil(want string, cause error) (Result, error) {
	b.t.Helper()
	ctx, cancel := context.WithCancelCause(b.t.Context())
	defer cancel(nil)
	return b.Config.Run(ctx, b.Attempt, func(p Progress) {
		if strings.Contains(p.Event.Text, want) {
			cancel(cause)
		}
	})
}

// stopAt runs the attempt and stops it when the agent has printed want.
func (b *fixture) stopAt(want string) Result {
	b.t.Helper()
	res, err := b.runUntil(want, ErrStopped)
	if err != nil {
		b.t.Fatal(err)
	}
	return res
}

// wantEnd ends the processes of the attempt in dir, and checks whether some of them had to be
// abandoned.
func wantEnd(t *testing.T, dir string, grace time.Duration, abandons bool) {
	t.Helper()
	if abandoned, err := End(t.Context(), dir, grace); abandoned != abandons || err != nil {
		t.Errorf("abandoned %v, %v; want %v", abandoned, err, abandons)
	}
}

// wantFree checks that no process holds the lock of the attempt in dir.
func wantFree(t *testing.T, dir string) {
	t.Helper()
	if held, _, err := Probe(dir); held || err != nil {
		t.Errorf("held %v, %v", held, err)
	}
}

// daemonScript starts a process that leaves the group of the agent and keeps its pipes and lock.
const daemonScript = `(setsid sh -c 'echo $$ > daemon; exec sleep 1000' &); while [ ! -s daemon ]; do sleep 0.01; done; `

// newDaemonFixture prepares an attempt that starts a daemon first. The daemon ends with the test.
func newDaemonFixture(t *testing.T, script string) *fixture {
	t.Helper()
	needSetsid(t)
	b := newFixture(t, daemonScript+script)
	t.Cleanup(func() { killPIDFile(t, filepath.Join(b.Workdir, "daemon")) })
	return b
}

func needSetsid(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/usr/bin/setsid"); err != nil {
		t.Skip("no setsid(1)")
	}
}

// withGrowingLimit runs an attempt with longer and longer limits until done accepts its result,
// because the speed of an agent depends on the machine. It returns the last result and its limit.
func withGrowingLimit(run func(limit time.Duration) Result, done func(Result) bool) (res Result, limit time.Duration) {
	for limit = 200 * time.Millisecond; ; limit *= 2 {
		if res = run(limit); done(res) || limit > 20*time.Second {
			return res, limit
		}
	}
}

func hasPrinted(r Result) bool { return r.Text != "" }
func isSuccess(r Result) bool  { return r.Status == Success }

// check compares the fields that most tests look at.
func (r Result) check(t *testing.T, status Status, exit Exit, text, reason string) {
	t.Helper()
	if r.Status != status || r.Exit != exit {
		t.Errorf("status %s, exit %s; want %s, %s (%+v)", r.Status, r.Exit, status, exit, r)
	}
	if r.Text != text {
		t.Errorf("text %q, want %q", r.Text, text)
	}
	if (reason == "") != (r.Reason == "") || !strings.Contains(r.Reason, reason) {
		t.Errorf("reason %q, want %q", r.Reason, reason)
	}
}

// await waits until ok returns true.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for over := time.After(30 * time.Second); !ok(); {
		select {
		case <-over:
			t.Fatalf("%s: timed out", what)
		case <-tick.C:
		}
	}
}

func readFile(t *testing.T, elem ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
