package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/statetest"
	"agentstateloop/state"
)

// crashStory has commits with several lines to append, one line, and none.
const crashStory = `
09:30 mail m1 uid=41 digest=d1; mesh q1 id=q1; nudge n1; poll
09:30:01 flagged 41; acked q1
09:30:02 sending ack.1
09:30:03 sent ack.1; claim
09:30:04 start
09:31 end success
09:31:01 failed reply.t1 permanent "550 no"
09:31:02 halt
`

// emptyPolls continues crashStory with commits that only change times.
const emptyPolls = `
09:32 poll
09:33 poll
09:34 poll
`

// commitLine commits the Step of one line of a story, which continues from the
// committed state.
func commitLine(st *Store, story *statetest.Story, line string) error {
	events, err := story.Read(line)
	if err != nil {
		return err
	}
	now := story.Now
	s, err := st.Commit(context.Background(), now, func(s state.State, recovery Recovery) (state.State, error) {
		if s.Serial == 0 && recovery.Reason == "" {
			s = state.New(s.Agent, "seed") // the seed of the story, for the comparison
		}
		evs := events
		if recovery.Reason != "" {
			evs = append([]state.Event{state.Recovered{Reason: recovery.Reason}}, evs...)
		}
		return state.Step(s, evs, story.P, now), nil
	})
	if err != nil {
		return err
	}
	story.S = s
	story.Name()
	return nil
}

func storyLines(transcript string) []string {
	var lines []string
	for line := range strings.Lines(transcript) {
		if line = strings.TrimRight(line, "\n"); line != "" && !statetest.Expected(line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// check fails the test if err is not nil.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// errCrash is the value that a hook panics with to simulate the death of the process.
var errCrash = errors.New("crash")

// errNoSpace is the error that a hook returns to simulate a full disk.
var errNoSpace = errors.New("no space left on device")

// fault breaks the nth step that touches the disk.
type fault struct {
	name string
	// strike is called with that step. It may damage the file as a crash would, and
	// panics with errCrash or returns an error.
	strike func(t *testing.T, st *Store, step, path string) error
}

var faults = []fault{
	{"killed", func(*testing.T, *Store, string, string) error { panic(errCrash) }},
	{"error", func(*testing.T, *Store, string, string) error { return errNoSpace }},
	{"killed with half a file written", func(t *testing.T, _ *Store, step, path string) error {
		if step == "fsync" {
			tear(t, path)
		}
		panic(errCrash)
	}},
	{"power lost", func(t *testing.T, st *Store, step, path string) error {
		if step == "fsync" && !strings.Contains(path, "history") {
			check(t, os.Truncate(path, 0))
		}
		if step == "fsyncdir" && path == st.Dir {
			undoRename(t, st)
		}
		panic(errCrash)
	}},
}

// tear cuts a file off inside its last line.
func tear(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	check(t, err)
	lastLine := bytes.LastIndexByte(bytes.TrimSuffix(data, []byte("\n")), '\n') + 1
	check(t, os.Truncate(path, int64(lastLine+(len(data)-lastLine)/2)))
}

// undoRename restores the previous name of the state, like a power failure before the directory was
// fsynced. It also removes a history file that was created after the rename.
func undoRename(t *testing.T, st *Store) {
	t.Helper()
	s, err := st.parseStored(stateFile)
	if err != nil {
		return // the directory itself was created: it is empty
	}
	if last, _ := st.lastLine(historyName(s.LastStep)); len(s.Lines) > 0 && last.Serial == s.Serial {
		return // the state was durable before the history began
	}
	check(t, os.Remove(st.path(stateFile)))
	if prev, err := os.ReadFile(st.path(prevFile)); err == nil && s.Serial > 1 {
		check(t, os.WriteFile(st.path(stateFile), prev, 0o600))
	}
}

// TestCommitAfterCrash breaks every commit of a story at every step that touches the
// disk, in every way. The next reader finds the old state or the new one, whole.
// After the next commit the history has every line exactly once. An interrupted
// commit that is repeated leads to the state that the story has without the fault.
func TestCommitAfterCrash(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			base := &Store{Dir: filepath.Join(t.TempDir(), "agent"), Agent: "goulard3120"}
			story := statetest.New()
			var history []state.Line // what the history must hold
			points := 0
			for _, line := range storyLines(crashStory + emptyPolls) {
				before, events, now := story.S, mustRead(t, story, line), story.Now
				after := state.Step(before, events, story.P, now)
				for n := 1; breakCommit(t, f, n, base, before, after, history); n++ {
					points++
				}
				check(t, commitLine(base, story, line))
				history = append(history, after.Lines...)
				statetest.SameState(t, story.S, after)
			}
			if points < 40 {
				t.Errorf("only %d crash points", points)
			}
			t.Logf("%d crash points", points)
		})
	}
}

func mustRead(t *testing.T, st *statetest.Story, line string) []state.Event {
	t.Helper()
	events, err := st.Read(line)
	check(t, err)
	return events
}

// breakCommit makes the commit from before to after on a copy of base, breaks it at
// step n, and checks what is left. It returns false if there are fewer than n steps.
func breakCommit(t *testing.T, f fault, n int, base *Store, before, after state.State, history []state.Line) bool {
	t.Helper()
	st := &Store{Dir: filepath.Join(t.TempDir(), "agent"), Agent: base.Agent}
	copyDir(t, base.Dir, st.Dir)
	where, renamed := "", false
	st.Hook = func(step, path string) error {
		renamed = renamed || step == "rename"
		if n--; n != 0 {
			return nil
		}
		where = step + " " + filepath.Base(path)
		if step == "fsyncdir" && !renamed {
			panic(errCrash) // a file with its final name was durable before
		}
		return f.strike(t, st, step, path)
	}
	now := after.LastStep
	commit := func() (err error) {
		defer func() {
			if p := recover(); p == errCrash {
				err = errCrash
			} else if p != nil {
				panic(p)
			}
		}()
		_, err = st.Commit(context.Background(), now, func(state.State, Recovery) (state.State, error) { return after, nil })
		return err
	}
	err := commit()
	if where == "" {
		return false
	}
	if !errors.Is(err, errNoSpace) && !errors.Is(err, errCrash) {
		t.Errorf("%s: Commit hides the fault: %v", where, err)
	}

	st.Hook = nil
	if errors.Is(err, errNoSpace) && strings.HasPrefix(where, "fsync history") {
		// Lines that were not fsynced must be written again, not found and trusted.
		if last, err := st.lastLine(historyName(now)); err != nil || last.Serial == after.Serial {
			t.Errorf("%s: the history kept line %d.%d, %v", where, last.Serial, last.N, err)
		}
	}
	left, err := st.Read()
	switch {
	case err != nil:
		t.Fatalf("%s: read: %v", where, err)
	case left.Serial == after.Serial:
		statetest.SameState(t, left, after)
	case left.Serial == before.Serial:
		if left.Serial > 0 {
			statetest.SameState(t, left, before)
		}
		// The interrupted step is repeated, as the next poll would do.
		if _, err := st.Commit(context.Background(), now, func(state.State, Recovery) (state.State, error) { return after, nil }); err != nil {
			t.Fatalf("%s: commit again: %v", where, err)
		}
	default:
		t.Fatalf("%s: serial %d is neither old nor new", where, left.Serial)
	}
	// The next commit finds the new state and completes the history.
	next, err := st.Commit(context.Background(), now, func(s state.State, _ Recovery) (state.State, error) {
		statetest.SameState(t, s, after)
		return state.Step(s, []state.Event{state.Switched{On: !s.HaltedHere}}, statetest.Policy(), now), nil
	})
	if err != nil {
		t.Fatalf("%s: next commit: %v", where, err)
	}
	sameHistory(t, where, st, slices.Concat(history, after.Lines, next.Lines))
	if _, err := os.Stat(st.path(stateFile + ".tmp")); err == nil {
		t.Errorf("%s: a temporary file was left", where)
	}
	return true
}

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if _, err := os.Stat(from); errors.Is(err, os.ErrNotExist) {
		return
	}
	check(t, os.CopyFS(to, os.DirFS(from)))
	check(t, os.Chmod(to, 0o700))
}

// sameHistory checks that the history has these lines, each once, in this order.
func sameHistory(t *testing.T, where string, st *Store, want []state.Line) {
	t.Helper()
	got, err := st.allLines()
	check(t, err)
	if g, w := statetest.JSON(t, got), statetest.JSON(t, want); g != w {
		t.Errorf("%s: history is\n%s\nwant\n%s", where, g, w)
	}
}

// TestFailingChangeWritesNothing checks that Commit writes nothing if change
// returns an error or makes no step.
func TestFailingChangeWritesNothing(t *testing.T) {
	st, story := startedStore(t)
	story.Play("10:00 poll") // the story's own time
	before := statetest.JSON(t, mustState(t, st))
	refusal := errors.New("no")
	_, err := st.Commit(context.Background(), story.Now, func(s state.State, _ Recovery) (state.State, error) { return state.State{}, refusal })
	if !errors.Is(err, refusal) {
		t.Errorf("Commit returned %v, want %v", err, refusal)
	}
	for range 2 {
		s, err := st.Commit(context.Background(), story.Now, func(s state.State, _ Recovery) (state.State, error) { return s, nil })
		if err != nil || statetest.JSON(t, s) != before {
			t.Errorf("a change that changes nothing: %v, %s", err, statetest.JSON(t, s))
		}
	}
	if after := statetest.JSON(t, mustState(t, st)); after != before {
		t.Errorf("state is\n%s\nwant\n%s", after, before)
	}
	seen := map[string]bool{}
	for l, err := range st.History() {
		at := fmt.Sprint(l.Serial, ".", l.N)
		if err != nil || seen[at] {
			t.Errorf("line %s: %v, or doubled", at, err)
		}
		seen[at] = true
	}
}

func mustState(t *testing.T, st *Store) state.State {
	t.Helper()
	s, err := st.Read()
	check(t, err)
	return s
}

// startedStore returns a store after the commits of crashStory.
func startedStore(t testing.TB) (*Store, *statetest.Story) {
	t.Helper()
	st := &Store{Dir: filepath.Join(t.TempDir(), "agent"), Agent: "goulard3120"}
	story := statetest.New()
	for _, line := range storyLines(crashStory) {
		check(t, commitLine(st, story, line))
	}
	return st, story
}

func TestFilesArePrivate(t *testing.T) {
	st, _ := startedStore(t)
	check(t, st.Ring("cron", "done"))
	check(t, st.Log(time.Now(), "hello"))
	err := filepath.Walk(st.Dir, func(path string, info os.FileInfo, err error) error {
		want := os.FileMode(0o600)
		if info.IsDir() {
			want = 0o700
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode().Perm(), want)
		}
		return err
	})
	check(t, err)
}

func add(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	check(t, err)
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// TestCommitOrder checks the order of a commit: the new state is on the disk before it gets its
// name, it has its name before the history records it, and both are durable before Commit returns.
func TestCommitOrder(t *testing.T) {
	st, story := startedStore(t)
	var steps []string
	st.Hook = func(step, path string) error {
		steps = append(steps, step)
		return nil
	}
	check(t, commitLine(st, story, "09:40 go"))
	if want := []string{"write", "fsync", "link", "rename", "fsyncdir", "append", "fsync", "done"}; !slices.Equal(steps, want) {
		t.Errorf("steps %v, want %v", steps, want)
	}
	steps = nil
	if err := commitLine(st, story, "09:40 flagged 1"); err != nil { // without a history line
		t.Fatal(err)
	}
	if want := []string{"write", "fsync", "link", "rename", "fsyncdir", "done"}; !slices.Equal(steps, want) {
		t.Errorf("steps %v, want %v", steps, want)
	}
	steps = nil
	check(t, st.Ring("shell", ""))
	if want := []string{"write", "rename", "fsync", "fsyncdir", "fsyncdir"}; !slices.Equal(steps, want) {
		t.Errorf("a nudge: steps %v, want %v", steps, want)
	}
}
