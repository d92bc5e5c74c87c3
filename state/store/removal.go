package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"agentstateloop/internal/osfile"
)

// RemovalMark is the name of a file in nudges/ that exists while `uninstall --purge` removes the
// agent. It is there because a listener watches that folder. While it exists, no turn and no
// lingering poll begins: TryLock reports their locks as held.
const RemovalMark = ".uninstall"

// MarkRemoval records that the agent is being removed.
func (st *Store) MarkRemoval() error {
	if err := st.makeFolder(NudgesDir); err != nil {
		return err
	}
	f, err := osfile.OpenAppend(st.path(filepath.Join(NudgesDir, RemovalMark)), 0o600)
	if err != nil {
		return fmt.Errorf("mark the removal: %w", err)
	}
	return f.Close()
}

// UnmarkRemoval undoes MarkRemoval.
func (st *Store) UnmarkRemoval() error {
	return removeIfThere(st.path(filepath.Join(NudgesDir, RemovalMark)))
}

// BeingRemoved reports whether the agent is being removed, or a removal was interrupted.
func (st *Store) BeingRemoved() bool {
	_, err := os.Lstat(st.path(filepath.Join(NudgesDir, RemovalMark)))
	return err == nil
}

// HoldAll takes every lock of the agent but the one of a commit, in their order, and waits for
// their holders until ctx ends. Then the error names the lock that another process holds. waits
// is called with each lock that is not free at once. HoldAll creates no folder: without the
// directory, there are no holders.
func (st *Store) HoldAll(ctx context.Context, waits func(lock string)) (release func(), err error) {
	var held []*Lock
	release = func() {
		for _, l := range held {
			_ = l.Unlock() // the end of the process does the same
		}
	}
	if _, err := os.Stat(st.Dir); errors.Is(err, os.ErrNotExist) {
		return release, nil
	}
	for _, name := range []string{TurnLock, ListenLock, LingerLock, CycleLock, FetchLock, HookLock, SentLock} {
		lock, err := st.hold(ctx, name, waits)
		if err != nil {
			release()
			return nil, err
		}
		held = append(held, lock)
	}
	return release, nil
}

// hold takes one lock.
func (st *Store) hold(ctx context.Context, name string, waits func(lock string)) (*Lock, error) {
	f, err := osfile.Lock(st.path(name))
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	ok, err := f.TryLock()
	if err == nil && !ok {
		waits(name)
		_, err = f.TryLockContext(ctx, 20*time.Millisecond)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("another process still holds %s: find it with `fuser %[1]s`", f.Path())
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", f.Path(), err)
	}
	return &Lock{f}, nil
}
