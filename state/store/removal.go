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

// HoldAll takes every lock of the agent but the one of a commit, as Hold does. waits is called once
// with each lock that is not free at once. HoldAll creates no folder: without the directory, there
// are no holders.
func (st *Store) HoldAll(ctx context.Context, waits func(lock string)) (release func(), err error) {
	if _, err := os.Stat(st.Dir); errors.Is(err, os.ErrNotExist) {
		return func() {}, nil
	}
	reported := ""
	return st.Hold(ctx, func(lock string) error {
		if lock != reported {
			reported = lock
			waits(lock)
		}
		return nil
	}, TurnLock, ListenLock, LingerLock, CycleLock, FetchLock, HookLock, SentLock)
}

// Hold takes the named locks in their order, and waits for their holders until ctx ends. At a
// deadline the error names the lock that another process holds. Unlike TryLock, Hold takes the
// locks of an agent that is being removed, too. It calls waits after each failed try with the name
// of the lock, and an error of waits ends it.
func (st *Store) Hold(ctx context.Context, waits func(lock string) error, names ...string) (release func(), err error) {
	if err := st.makeDir(); err != nil {
		return nil, err
	}
	var held []*Lock
	release = func() {
		for _, l := range held {
			_ = l.Unlock() // the end of the process does the same
		}
	}
	for _, name := range names {
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
func (st *Store) hold(ctx context.Context, name string, waits func(lock string) error) (*Lock, error) {
	f, err := osfile.Lock(st.path(name))
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	for {
		if ok, err := f.TryLock(); err != nil {
			return nil, fmt.Errorf("lock %s: %w", f.Path(), err)
		} else if ok {
			return &Lock{f}, nil
		}
		if err := waits(name); err != nil {
			return nil, err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil, fmt.Errorf("another process still holds %s: find it with `fuser %[1]s`", f.Path())
			}
			return nil, fmt.Errorf("lock %s: %w", f.Path(), ctx.Err())
		}
	}
}
