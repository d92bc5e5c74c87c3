package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gofrs/flock"

	"agentstateloop/internal/osfile"
)

// The locks of an agent. Each is a file of its own, which no rename replaces. A process takes them
// in the order turn, cycle, state. The holder of CycleLock may try TurnLock but must not wait for
// it (docs/design.md, "Locks").
const (
	TurnLock   = "turn.lock"   // held by the runner of a turn for the whole turn
	CycleLock  = "cycle.lock"  // held for the network work of one cycle
	LingerLock = "linger.lock" // held by a poll that lingers
	FetchLock  = "fetch.lock"  // held by a poll that fetches large mail
	HookLock   = "hook.lock"   // held by a process that calls hooks
	SentLock   = "sent.lock"   // held by a process that files copies of sent mail
	stateLock  = "state.lock"  // held by Commit for milliseconds
)

// commitPatience is how long Commit waits for other commits. They take milliseconds, so a longer
// wait means a stopped process, not a busy one.
const commitPatience = 10 * time.Second

// Lock is a held lock.
type Lock struct{ f *flock.Flock }

// Unlock releases the lock.
func (l *Lock) Unlock() error { return l.f.Unlock() }

// TryLock takes the named lock. It returns nil if another process holds it.
func (st *Store) TryLock(name string) (*Lock, error) {
	if err := st.makeDir(); err != nil {
		return nil, err
	}
	f, err := osfile.Lock(st.path(name))
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	ok, err := f.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", f.Path(), err)
	}
	if !ok {
		return nil, nil
	}
	return &Lock{f}, nil
}

// lockState takes state.lock. It waits up to commitPatience.
func (st *Store) lockState(ctx context.Context) (*Lock, error) {
	f, err := osfile.Lock(st.path(stateLock))
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, commitPatience)
	defer cancel()
	_, err = f.TryLockContext(ctx, 2*time.Millisecond)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("%s was held by another process for %v: find it with `fuser %[1]s`", f.Path(), commitPatience)
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", f.Path(), err)
	}
	return &Lock{f}, nil
}
