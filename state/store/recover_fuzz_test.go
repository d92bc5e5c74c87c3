package store

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"agentstateloop/internal/testkit/statetest"
	"agentstateloop/state"
)

// FuzzLoad puts arbitrary bytes in place of the state, its copy and the history. The next commit
// either continues from them, keeps every byte that it could not read, and leaves a state that
// loads, or it fails and changes nothing (docs/design.md, "Recovery").
func FuzzLoad(f *testing.F) {
	good, prev, history := someFiles(f)
	f.Add(good, prev, history)
	f.Add(good[:len(good)/2], prev, history)
	f.Add([]byte(nil), prev[:len(prev)/2], history)
	f.Add([]byte(nil), []byte(nil), history[:len(history)-20])
	f.Add(bytes.Replace(good, []byte(`"version":1`), []byte(`"version":2`), 1), prev, history)
	f.Add(good, prev, append(bytes.Clone(history), "\n\n{}\nnull\n[1]\n{\"serial\":18446744073709551615}\n"...))
	for _, content := range statetest.BadStates {
		f.Add([]byte(content), []byte(content), []byte(content))
	}
	f.Fuzz(func(t *testing.T, current, prev, history []byte) {
		st := &Store{Dir: inMemory(t), Agent: "goulard3120"}
		found := map[string][]byte{stateFile: current, prevFile: prev, "history-2026-03.jsonl": history}
		for name, data := range found {
			if len(data) == 0 {
				delete(found, name)
				continue
			}
			check(t, os.WriteFile(st.path(name), data, 0o600))
		}
		s, recovery, err := st.load()
		if errors.Is(err, ErrNewer) || errors.Is(err, ErrOtherAgent) {
			if commitPoll(st) == nil {
				t.Error("Read failed, and Commit did not")
			}
			for name, data := range found {
				if now, err := os.ReadFile(st.path(name)); err != nil || !bytes.Equal(now, data) {
					t.Errorf("%s was changed: %q, %v", name, now, err)
				}
			}
			return
		}
		check(t, err)
		if s.Serial > math.MaxUint64/2 {
			t.Skip("a counter at its end")
		}
		check(t, commitPoll(st))
		next, again, err := st.load()
		if err != nil || again.Reason != "" || next.Serial <= s.Serial {
			t.Errorf("after the commit: serial %d after %d, %q, %v", next.Serial, s.Serial, again.Reason, err)
		}
		if recovery.Reason != "" && found[stateFile] != nil {
			corrupt, _ := filepath.Glob(st.path(stateFile + ".corrupt-*"))
			if len(corrupt) != 1 {
				t.Fatalf("set aside: %v", corrupt)
			}
			if data, err := os.ReadFile(corrupt[0]); err != nil || !bytes.Equal(data, current) {
				t.Errorf("set aside: %q, %v", data, err)
			}
		}
	})
}

// inMemory returns a folder in memory if the system has one, because real fsyncs would take most of
// the time.
func inMemory(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "state-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// someFiles returns the files of an agent after a short life.
func someFiles(f *testing.F) (current, prev, history []byte) {
	st, _ := startedStore(f)
	for name, into := range map[string]*[]byte{stateFile: &current, prevFile: &prev, "history-2026-03.jsonl": &history} {
		data, err := os.ReadFile(st.path(name))
		check(f, err)
		*into = data
	}
	return current, prev, history
}

// commitPoll commits one poll that found nothing.
func commitPoll(st *Store) error {
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	_, err := st.Commit(context.Background(), now, func(s state.State, recovery Recovery) (state.State, error) {
		var events []state.Event
		if recovery.Reason != "" {
			events = append(events, state.Recovered{Reason: recovery.Reason})
		}
		return state.Step(s, append(events, state.Polled{}), statetest.Policy(), now), nil
	})
	return err
}
