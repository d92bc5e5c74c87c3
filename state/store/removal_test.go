package store

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRemovalMark checks that no turn and no lingering poll begins while the agent is being removed,
// but that a turn that ends can still send and commit.
func TestRemovalMark(t *testing.T) {
	st := &Store{Dir: filepath.Join(t.TempDir(), "state"), Agent: "goulard3120"}
	check(t, st.MarkRemoval())
	for name, want := range map[string]bool{TurnLock: false, LingerLock: false, CycleLock: true, SentLock: true} {
		lock, err := st.TryLock(name)
		if got := lock != nil; got != want || err != nil {
			t.Errorf("%s: taken is %v, want %v: %v", name, got, want, err)
		}
		if lock != nil {
			check(t, lock.Unlock())
		}
	}
	if nudges, err := readNudges(st); err != nil || len(nudges) > 0 {
		t.Errorf("the mark counts as a nudge: %v, %v", nudges, err)
	}
	check(t, st.UnmarkRemoval())
	check(t, st.UnmarkRemoval())
	if lock, err := st.TryLock(TurnLock); err != nil || lock == nil {
		t.Errorf("after the mark is gone: %v, %v", lock, err)
	}
}

// TestHoldAll checks that HoldAll waits for a holder, names the lock that is not released in time,
// and creates nothing.
func TestHoldAll(t *testing.T) {
	st := &Store{Dir: filepath.Join(t.TempDir(), "state"), Agent: "goulard3120"}
	release, err := st.HoldAll(t.Context(), func(string) {})
	check(t, err)
	release()
	if st.BeingRemoved() || st.CheckFolders("x") != nil {
		t.Error("a missing directory was made")
	}
	held, err := st.TryLock(CycleLock)
	check(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := st.HoldAll(ctx, func(string) {}); err == nil || !strings.Contains(err.Error(), CycleLock) {
		t.Errorf("a lock that is not released: %v", err)
	}
	waited := ""
	release, err = st.HoldAll(t.Context(), func(lock string) { waited = lock; check(t, held.Unlock()) })
	check(t, err)
	if lock, err := st.TryLock(HookLock); waited != CycleLock || lock != nil || err != nil {
		t.Errorf("waited for %q; a lock that is held was taken: %v, %v", waited, lock, err)
	}
	release()
}

// TestHold checks that Hold takes a lock in spite of the mark of a removal, calls waits after each
// failed try, and holds nothing after an error of waits or the end of its context.
func TestHold(t *testing.T) {
	st := &Store{Dir: filepath.Join(t.TempDir(), "state"), Agent: "goulard3120"}
	held, err := st.TryLock(CycleLock)
	check(t, err)
	check(t, st.MarkRemoval())
	wrong := errors.New("no longer")
	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	for _, c := range []struct {
		want  error
		waits func(lock string) error
	}{
		{wrong, func(string) error {
			if tries++; tries == 3 {
				return wrong
			}
			return nil
		}},
		{context.Canceled, func(string) error { cancel(); return nil }},
	} {
		if _, err := st.Hold(ctx, c.waits, TurnLock, CycleLock); !errors.Is(err, c.want) {
			t.Errorf("%v, want %v", err, c.want)
		}
		release, err := st.Hold(t.Context(), func(lock string) error { return errors.New(lock + " is still held") }, TurnLock)
		check(t, err)
		release()
	}
	if tries != 3 {
		t.Errorf("waits was called %d times, want 3", tries)
	}
	check(t, held.Unlock())
}
