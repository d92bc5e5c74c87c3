package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"agentstateloop/internal/testkit/statetest"
	"agentstateloop/state"
)

// An empty poll, and each empty poll after it, fsyncs once and leaves .prev unchanged.
func TestEmptyPollFsyncsOnce(t *testing.T) {
	st, now := quietStore(t)
	prev, err := os.ReadFile(st.path(prevFile))
	check(t, err)
	for range 3 {
		now = now.Add(time.Minute)
		want := []string{"write state.json.tmp", "fsync state.json.tmp", "rename state.json", "done state.json"}
		if got := pollSteps(t, st, now); !slices.Equal(got, want) {
			t.Errorf("an empty poll makes the steps %q, want %q", got, want)
		}
		if s := mustState(t, st); !s.LastMailRead.Equal(now) {
			t.Errorf("the mail was read at %v, want %v", s.LastMailRead, now)
		}
	}
	if data, err := os.ReadFile(st.path(prevFile)); err != nil || string(data) != string(prev) {
		t.Errorf(".prev is %s, %v", data, err)
	}
}

// Any of the states that empty polls leave is whole, and the next commit goes on from it. So is
// what is rebuilt from .prev.
func TestLostPollTimes(t *testing.T) {
	st, now := quietStore(t)
	var left [][]byte
	for range 3 {
		data, err := os.ReadFile(st.path(stateFile))
		check(t, err)
		left = append(left, data)
		now = now.Add(time.Minute)
		pollSteps(t, st, now)
	}
	want := mustState(t, st)
	for _, data := range append(left, []byte("{")) {
		lost := &Store{Dir: filepath.Join(t.TempDir(), "agent"), Agent: st.Agent}
		copyDir(t, st.Dir, lost.Dir)
		check(t, os.Remove(lost.path(stateFile)))
		check(t, os.WriteFile(lost.path(stateFile), data, 0o600))
		found, recovery, err := lost.load()
		if err != nil || (recovery.Reason != "") != (string(data) == "{") {
			t.Fatalf("%q, %v", recovery.Reason, err)
		}
		found.Cursor.Swept, want.Cursor.Swept = time.Time{}, time.Time{}
		statetest.SameState(t, found.WithTimesOf(want), want)
		check(t, commitPoll(lost))
		wantWhole(t, lost)
	}
}

// A process that was killed before it fsynced the directory may have left a name that a power
// loss takes back. The next poll acts by it, so it makes it durable first.
func TestEmptyPollFsyncsFolder(t *testing.T) {
	st, now := quietStore(t)
	killed := errors.New("killed")
	st.Hook = func(step, _ string) error {
		if step == "fsyncdir" {
			return killed
		}
		return nil
	}
	_, err := st.Commit(context.Background(), now, func(s state.State, _ Recovery) (state.State, error) {
		s.Serial++
		s.Unkept++ // without a history line
		return s, nil
	})
	if !errors.Is(err, killed) {
		t.Fatal(err)
	}
	next := &Store{Dir: st.Dir, Agent: st.Agent}
	steps := pollSteps(t, next, now.Add(time.Minute))
	if want := []string{"link state.json.prev", "fsyncdir agent", "write state.json.tmp", "fsync state.json.tmp", "rename state.json", "done state.json"}; !slices.Equal(steps, want) {
		t.Errorf("the steps are %q, want %q", steps, want)
	}
	if steps := pollSteps(t, next, now.Add(2*time.Minute)); len(steps) != 4 {
		t.Errorf("the next poll makes the steps %q", steps)
	}
}

// After any other change, everything is fsynced and the previous state is kept.
func TestOtherChangesAreDurable(t *testing.T) {
	for name, change := range map[string]func(*state.State){
		"the cursor":       func(s *state.State) { s.Cursor.Next++ },
		"a key":            func(s *state.State) { s.Seen = map[string]int64{"mail:x": 1} },
		"an earlier phase": func(s *state.State) { s.PhaseSince = s.PhaseSince.Add(-time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			st, now := quietStore(t)
			var steps []string
			st.Hook = recordSteps(&steps)
			_, err := st.Commit(context.Background(), now, func(s state.State, _ Recovery) (state.State, error) {
				next := s
				next.Serial++
				change(&next)
				return next, nil
			})
			check(t, err)
			want := []string{"write state.json.tmp", "fsync state.json.tmp", "link state.json.prev", "rename state.json", "fsyncdir agent", "done state.json"}
			if !slices.Equal(steps, want) {
				t.Errorf("the steps are %q, want %q", steps, want)
			}
		})
	}
}

// quietStore returns a store whose last two polls were empty.
func quietStore(t *testing.T) (*Store, time.Time) {
	t.Helper()
	st, story := startedStore(t)
	now := story.Now.Add(10 * time.Minute) // the phase ends
	for range 3 {
		now = now.Add(time.Minute)
		pollSteps(t, st, now)
	}
	return st, now
}

// pollSteps commits an empty poll and returns its steps.
func pollSteps(t *testing.T, st *Store, now time.Time) []string {
	t.Helper()
	var steps []string
	st.Hook = recordSteps(&steps)
	_, err := st.Commit(context.Background(), now, func(s state.State, _ Recovery) (state.State, error) {
		events := plainPoll()
		cursor := s.Cursor.Clone()
		cursor.Complete = now
		events[0] = state.SourceRead{Source: state.Mail, Cursor: &cursor}
		return state.Step(s, events, statetest.Policy(), now), nil
	})
	st.Hook = nil
	check(t, err)
	return steps
}

// recordSteps returns a hook that adds each step to steps.
func recordSteps(steps *[]string) Hook {
	return func(step, path string) error {
		*steps = append(*steps, step+" "+filepath.Base(path))
		return nil
	}
}
