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

// The test binary stands in for our own: the runner starts it as `__attempt`.
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
		flag.Set("test.parallel", "8") // these tests wait; the real agents, which run otherwise, work
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

// withTime runs an attempt under a limit, and under longer ones until far holds
// for its result: how soon the agent gets there depends on the machine. It returns
// the last result and its limit.
func withTime(run func(limit time.Duration) Result, far func(Result) bool) (res Result, limit time.Duration) {
	for limit = 200 * time.Millisecond; ; limit *= 2 {
		if res = run(limit); far(res) || limit > 20*time.Second {
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

// await returns when ok holds.
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

func read(t *testing.T, elem ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
