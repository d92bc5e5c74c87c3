package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gofrs/flock"

	"agentstateloop/internal/osfile"
)

// The locks of an agent. Each is a separate file, which no rename replaces. They
// are taken in the order turn, cycle, state. The holder of CycleLock may only try
// TurnLock, never wait for it (docs/design.md, "Locks").
const (
	TurnLock   = "turn.lock"   // held by the runner of a turn for all of it
	CycleLock  = "cycle.lock"  // held for the network work of one cycle
	LingerLock = "linger.lock" // held by a poll that stays
	FetchLock  = "fetch.lock"  // held by a poll that fetches large mail
	HookLock   = "hook.lock"   // held by a process that calls hooks
	SentLock   = "sent.lock"   // held by a process that files copies of sent mail
	stateLock  = "state.lock"  // held by Commit for milliseconds
)

// commitPatience is how long Commit waits for other commits. They take
// milliseconds, so a longer wait means a stopped process, not a busy one.
const commitPatience = 10 * time.Second

// Lock is a held lock.
type Lock struct{ f *flock.Flock }

// Unlock releases the lock.
func (l *Lock) Unlock() error { return l.f.Unlock() }

// TryLock takes one of the named locks. It returns nil if another process holds it.
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

// lockState takes state.lock and waits up to commitPatience for it.
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
