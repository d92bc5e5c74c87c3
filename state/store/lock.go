package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// The locks of an agent, each a file of its own that no rename replaces. They
// are taken in the order turn, cycle, state; a holder of CycleLock only tries
// TurnLock (DESIGN 3).
const (
	TurnLock   = "turn.lock"   // a whole turn, by its runner
	CycleLock  = "cycle.lock"  // one cycle's network work
	LingerLock = "linger.lock" // a poll that stays
	stateLock  = "state.lock"  // milliseconds, by Commit alone
)

// commitPatience is how long Commit waits for other commits. They take
// milliseconds, so a longer wait means a stopped process, not a busy one.
const commitPatience = 10 * time.Second

// Lock is a lock that is held.
type Lock struct{ f *flock.Flock }

// Unlock lets go.
func (l *Lock) Unlock() error { return l.f.Unlock() }

// TryLock takes one of the named locks if nobody holds it; nil if somebody does.
func (st *Store) TryLock(name string) (*Lock, error) {
	if err := st.makeDir(); err != nil {
		return nil, err
	}
	f := flock.New(filepath.Join(st.Dir, name))
	ok, err := f.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", f.Path(), err)
	}
	if !ok {
		return nil, nil
	}
	return &Lock{f}, nil
}

// lockState takes state.lock, and waits a while for it.
func (st *Store) lockState(ctx context.Context) (*Lock, error) {
	f := flock.New(filepath.Join(st.Dir, stateLock))
	ctx, cancel := context.WithTimeout(ctx, commitPatience)
	defer cancel()
	_, err := f.TryLockContext(ctx, 2*time.Millisecond)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("%s was held by another process for %v: find it with `fuser %[1]s`", f.Path(), commitPatience)
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", f.Path(), err)
	}
	return &Lock{f}, nil
}
