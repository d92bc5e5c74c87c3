// Package store keeps one agent's State on disk, with its history, payloads, nudges, locks and log
// (docs/design.md, "Files of one agent").
package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"agentstateloop/internal/osfile"
	"agentstateloop/state"
)

// Store keeps one agent's State in Dir, with its history and payloads. Several processes may use
// one directory at the same time.
type Store struct {
	Dir   string // mode 0700, created by the first write
	Agent string // the handle; a state of another agent is rejected
	Hook  Hook   // for the simulator

	synced atomic.Uint64 // the serial whose history lines this process has fsynced

	recent recent
}

const (
	stateFile = "state.json"
	prevFile  = "state.json.prev"
)

// ErrNewer reports that state.json was written by a newer version of this program.
var ErrNewer = errors.New("state.json was written by a newer agentstateloop: upgrade this one, or use the newer binary")

// ErrOtherAgent reports that the directory belongs to another handle.
var ErrOtherAgent = errors.New("the state directory belongs to another agent")

// errCorrupt reports that a state file cannot be used.
var errCorrupt = errors.New("corrupt")

// Read returns the state. It takes no lock and changes no file. Before the first commit it returns
// a new state. The state's slices, maps and pointers are shared and must not be modified; Step
// copies them.
func (st *Store) Read() (state.State, error) {
	s, _, err := st.load()
	return s, err
}

// Commit replaces the state by the result of change. Under state.lock it reads the state, calls
// change, writes and fsyncs a new file, keeps the old one as state.json.prev, renames the new one,
// fsyncs the directory and appends the new history lines. When Commit returns nil, the new state is
// durable. One exception: if it differs from the old one only in the times of a poll, a power loss
// may restore the old one (see writeTimes). On an error the caller must act as if the state had not
// changed. After a crash at the right moment, the next reader may still see the new state,
// complete.
//
// If the state is unusable, Commit first sets it aside and rebuilds it. It passes the reason to
// change, which steps a Recovered event for it. If change returns the state unchanged, Commit
// writes nothing.
func (st *Store) Commit(ctx context.Context, now time.Time, change func(state.State, Recovery) (state.State, error)) (state.State, error) {
	if err := st.makeDir(); err != nil {
		return state.State{}, err
	}
	lock, err := st.lockState(ctx)
	if err != nil {
		return state.State{}, err
	}
	defer lock.Unlock()

	old, recovery, err := st.loadStored()
	if err != nil {
		return state.State{}, err
	}
	if err := st.finishEarlier(old, recovery, now); err != nil {
		return state.State{}, err
	}
	if _, err := st.ensureIDKey(old.State, now); err != nil {
		return state.State{}, err
	}
	next, err := change(old.State, recovery)
	if err != nil {
		return state.State{}, err
	}
	if next.Serial == old.Serial && recovery == "" {
		return old.State, nil // change made no step
	}
	chain, lines, err := st.extend(old.Chain, next.Lines)
	if err != nil {
		return state.State{}, fmt.Errorf("read history: %w", err)
	}
	if err := st.save(old, stored{State: next, Chain: chain}, recovery); err != nil {
		return state.State{}, fmt.Errorf("save state: %w", err)
	}
	if err := st.appendSealed(lines); err != nil {
		return state.State{}, fmt.Errorf("append history: %w", err)
	}
	return next, st.Hook.at("done", st.path(stateFile))
}

// finishEarlier repairs the effects of an earlier crash or corruption before Commit writes: it
// appends lines that the history lacks, or sets a bad state.json aside.
func (st *Store) finishEarlier(old stored, recovery Recovery, now time.Time) error {
	if recovery == "" {
		if err := st.appendMissing(old); err != nil {
			return fmt.Errorf("append history: %w", err)
		}
		return nil
	}
	if err := st.cutTorn(); err != nil {
		return fmt.Errorf("cut history: %w", err)
	}
	return st.setAside(stateFile, "corrupt", now)
}

// setAside renames an unusable file. The new name includes the reason.
func (st *Store) setAside(file, why string, now time.Time) error {
	aside := st.path(file + "." + why + "-" + now.UTC().Format("20060102T150405.000000000Z"))
	if err := st.Hook.at("rename", aside); err != nil {
		return err
	}
	if err := os.Rename(st.path(file), aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// parse is parseStored for a caller that does not need the chain.
func (st *Store) parse(name string) (state.State, error) {
	s, err := st.parseStored(name)
	return s.State, err
}

// parseStored reads one state file, or returns it from the cache.
func (st *Store) parseStored(name string) (stored, error) {
	if s, ok := st.recent.of(st.path(name)); ok {
		return s, nil
	}
	f, data, err := st.openState(name)
	if err != nil {
		return stored{}, err
	}
	s, err := st.decode(name, data)
	if err != nil || name != stateFile {
		f.Close()
		return s, err
	}
	st.recent.keep(f, data, s, nil)
	return s, nil
}

// openState opens one state file and reads it.
func (st *Store) openState(name string) (f *os.File, data []byte, err error) {
	if f, err = osfile.OpenAtMost(st.path(name), maxState); err == nil {
		if data, err = osfile.ReadAll(f, maxState); err != nil {
			f.Close()
		}
	}
	if errors.Is(err, osfile.ErrKind) || errors.Is(err, osfile.ErrTooLarge) {
		err = fmt.Errorf("%w: %w", errCorrupt, err)
	}
	return f, data, err
}

// decode decodes and checks the content of one state file.
func (st *Store) decode(name string, data []byte) (stored, error) {
	s, err := decodeState(data)
	if err != nil {
		// A newer program may write values that do not fit our fields.
		var head struct {
			Version int `json:"version"`
		}
		if json.Unmarshal(data, &head) != nil || head.Version <= state.Version {
			return stored{}, fmt.Errorf("%w: %s: %v", errCorrupt, name, err)
		}
		s.Version = head.Version
	}
	if s.Version > state.Version {
		return stored{}, fmt.Errorf("%s has version %d, and this program supports %d: %w", st.path(name), s.Version, state.Version, ErrNewer)
	}
	if err := s.Valid(); err != nil {
		return stored{}, fmt.Errorf("%w: %s: %v", errCorrupt, name, err)
	}
	if s.Agent != st.Agent {
		return stored{}, fmt.Errorf("%s belongs to %q, not to %q: %w", st.path(name), s.Agent, st.Agent, ErrOtherAgent)
	}
	return s, nil
}

func (st *Store) path(name string) string { return filepath.Join(st.Dir, name) }

// makeDir creates the directory, and nudges/ in it for scripts to move files into. If nudges/ is
// not a folder, Nudges reports it.
func (st *Store) makeDir() error {
	err := makeDirDurably(st.Hook, st.Dir)
	if err == nil {
		err = st.makeFolder(NudgesDir)
	}
	if err != nil && !errors.Is(err, osfile.ErrKind) {
		return fmt.Errorf("make state directory: %w", err)
	}
	return nil
}
