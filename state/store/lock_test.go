package store

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit"
	"agentstateloop/internal/testkit/statetest"
	"agentstateloop/state"
)

// TestMain lets the test binary act as another process of the same agent.
func TestMain(m *testing.M) {
	if dir := os.Getenv("STATE_TEST_COLD"); dir != "" {
		if err := measureCold(os.Stdout, dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if dir := os.Getenv("STATE_TEST_COMMIT"); dir != "" {
		if err := commitMany(os.Stdout, dir, os.Getenv("STATE_TEST_NAME"), os.Getenv("STATE_TEST_COUNT")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if err := testkit.InMemory(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// commitMany commits one message after another, and prints the serial of each durable commit.
func commitMany(out io.Writer, dir, name, count string) error {
	n, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	st := &Store{Dir: dir, Agent: "goulard3120"}
	for i := range n {
		s, err := st.Commit(context.Background(), time.Now(), func(s state.State, recovery Recovery) (state.State, error) {
			if recovery.Reason != "" {
				return state.State{}, fmt.Errorf("state had to be recovered: %s", recovery.Reason)
			}
			msg := state.Message{Key: fmt.Sprintf("cli:%s.%d", name, i), Source: state.CLI, From: name, Operator: true}
			return state.Step(s, []state.Event{state.Arrived{Message: msg}}, statetest.Policy(), time.Now()), nil
		})
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, s.Serial); err != nil {
			return err
		}
	}
	return nil
}

func committer(t *testing.T, dir, name string, count int) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "STATE_TEST_COMMIT="+dir, "STATE_TEST_NAME="+name, "STATE_TEST_COUNT="+strconv.Itoa(count))
	cmd.Stderr = os.Stderr
	return cmd
}

// TestManyProcesses runs concurrent commits in real processes. Every serial is used once, every
// message is kept, and readers see only complete states.
func TestManyProcesses(t *testing.T) {
	const processes, each = 12, 10
	dir := filepath.Join(t.TempDir(), "agent")
	var cmds []*exec.Cmd
	outs := make([]strings.Builder, processes)
	for i := range processes {
		cmd := committer(t, dir, fmt.Sprint("p", i), each)
		cmd.Stdout = &outs[i]
		check(t, cmd.Start())
		cmds = append(cmds, cmd)
	}
	st := &Store{Dir: dir, Agent: "goulard3120"}
	stop, looked := make(chan struct{}), make(chan error)
	go func() { looked <- lookUntil(st, stop) }()
	for _, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	if err := <-looked; err != nil {
		t.Error(err)
	}

	serials := map[string]bool{}
	for i := range outs {
		for _, serial := range strings.Fields(outs[i].String()) {
			if serials[serial] {
				t.Errorf("serial %s was used twice", serial)
			}
			serials[serial] = true
		}
	}
	s := mustState(t, st)
	if len(serials) != processes*each || s.Serial != processes*each || len(s.Inbox) != processes*each {
		t.Errorf("%d serials used, the last is %d, %d messages; want %d of each", len(serials), s.Serial, len(s.Inbox), processes*each)
	}
	wantHistoryOf(t, st, s)
}

// lookUntil reads the state over and over, as `status --watch` does.
func lookUntil(st *Store, stop chan struct{}) error {
	var serial uint64
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		s, recovery, err := st.load()
		if err != nil {
			return fmt.Errorf("read during commits: %w", err)
		}
		if recovery.Reason != "" && s.Serial > 0 && serial > 0 {
			return fmt.Errorf("a reader found no whole state: %s", recovery.Reason)
		}
		if s.Serial < serial {
			return fmt.Errorf("serial %d after %d", s.Serial, serial)
		}
		serial = s.Serial
	}
}

// wantHistoryOf checks that the history has each message of the state once.
func wantHistoryOf(t *testing.T, st *Store, s state.State) {
	t.Helper()
	lines := map[string]int{}
	last := state.Line{}
	for l, err := range st.History() {
		check(t, err)
		if !l.After(last.Serial, last.N) && last.Kind != "" {
			t.Errorf("line %d.%d comes after %d.%d", l.Serial, l.N, last.Serial, last.N)
		}
		last = l
		if l.Kind == state.LineMessage {
			lines[l.Key]++
		}
	}
	for _, m := range s.Inbox {
		if lines[m.Key] != 1 {
			t.Errorf("the history has %s %d times", m.Key, lines[m.Key])
		}
	}
	if len(lines) != len(s.Inbox) {
		t.Errorf("%d messages in the history, %d in the inbox", len(lines), len(s.Inbox))
	}
}

// TestKilledProcess kills a process during its commits. Every commit that it reported as durable is
// durable, the next process continues at once, and no line is doubled.
func TestKilledProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "agent")
	st := &Store{Dir: dir, Agent: "goulard3120"}
	for round := range 5 {
		cmd := committer(t, dir, fmt.Sprint("k", round), 1<<20)
		out, err := cmd.StdoutPipe()
		check(t, err)
		check(t, cmd.Start())
		output := ""
		lines := bufio.NewScanner(out)
		for n := 0; n < 7+round && lines.Scan(); n++ {
			output = lines.Text()
		}
		check(t, cmd.Process.Kill())
		for lines.Scan() { // its output before the kill
			output = lines.Text()
		}
		_ = cmd.Wait() // killed
		serial, err := strconv.ParseUint(output, 10, 64)
		check(t, err)
		s := mustState(t, st)
		if s.Serial < serial || s.Serial > serial+1 {
			t.Errorf("round %d: serial %d was durable, now it is %d", round, serial, s.Serial)
		}
	}
	check(t, commitMany(io.Discard, dir, "end", "1"))
	wantHistoryOf(t, st, mustState(t, st))
}

// TestLocksExcludeOtherHolders checks that each lock keeps out other holders of it, and nothing
// else.
func TestLocksExcludeOtherHolders(t *testing.T) {
	st := &Store{Dir: filepath.Join(t.TempDir(), "agent"), Agent: "goulard3120"}
	for _, name := range []string{TurnLock, CycleLock, LingerLock} {
		lock, err := st.TryLock(name)
		if err != nil || lock == nil {
			t.Fatalf("%s: %v, %v", name, lock, err)
		}
		if second, err := st.TryLock(name); err != nil || second != nil {
			t.Errorf("%s was taken twice: %v", name, err)
		}
		// None of the locks blocks a commit: tell, nudge and halt still work.
		if err := commitMany(io.Discard, st.Dir, name, "1"); err != nil {
			t.Errorf("commit under %s: %v", name, err)
		}
		if err := lock.Unlock(); err != nil {
			t.Error(err)
		}
		again, err := st.TryLock(name)
		if err != nil || again == nil {
			t.Fatalf("%s was not released: %v", name, err)
		}
		if err := again.Unlock(); err != nil {
			t.Error(err)
		}
	}
}

// TestCommitWaits checks that a commit waits for the lock only as long as its
// context, and otherwise fails with an error that names the lock.
func TestCommitWaits(t *testing.T) {
	st := &Store{Dir: filepath.Join(t.TempDir(), "agent"), Agent: "goulard3120"}
	lock, err := st.TryLock(stateLock)
	if err != nil || lock == nil {
		t.Fatal(lock, err)
	}
	defer lock.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = st.Commit(ctx, time.Now(), func(s state.State, _ Recovery) (state.State, error) {
		t.Error("change was called without the lock")
		return s, nil
	})
	if err == nil {
		t.Error("Commit went past a held lock")
	}
}
