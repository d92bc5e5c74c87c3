package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"agentstateloop/state"
)

// Store keeps one agent's State in Dir, with its history and payloads (DESIGN
// 4). Several processes may use one directory at once.
type Store struct {
	Dir   string // 0700, made when first written to
	Agent string // the handle; a state of another agent is refused
	Hook  Hook   // for the simulator

	synced atomic.Uint64 // the serial whose history lines this process has fsynced

	recent recent
}

const (
	stateFile = "state.json"
	prevFile  = "state.json.prev"
)

// ErrNewer: state.json was written by a newer version of this program.
var ErrNewer = errors.New("state.json was written by a newer agentstateloop: upgrade this one, or use the newer binary")

// ErrOtherAgent: the directory belongs to another handle.
var ErrOtherAgent = errors.New("the state directory belongs to another agent")

// errCorrupt: state.json cannot be used.
var errCorrupt = errors.New("corrupt")

// Read returns the state without a lock and without changing anything; a
// state that never was is a new one. It is what `status` shows.
func (st *Store) Read() (state.State, error) {
	s, _, err := st.load()
	return s, err
}

// Commit replaces the state by what change makes of it: under state.lock it
// reads, changes, writes and fsyncs a new file, keeps the old one as
// state.json.prev, renames, fsyncs the directory, and appends the new history
// lines. When it returns nil the new state is durable; on an error the caller
// must act as if nothing had happened, though a crash at the right moment may
// show the new state to the next reader, who finds it complete.
//
// A state that cannot be used is set aside and rebuilt first; change then
// is told so, and steps a Recovered event, see Recovery. A change that gives the
// state back as it was writes nothing.
func (st *Store) Commit(ctx context.Context, now time.Time, change func(state.State, Recovery) (state.State, error)) (state.State, error) {
	if err := st.makeDir(); err != nil {
		return state.State{}, err
	}
	lock, err := st.lockState(ctx)
	if err != nil {
		return state.State{}, err
	}
	defer lock.Unlock()

	old, recovery, err := st.load()
	if err != nil {
		return state.State{}, err
	}
	if err := st.settle(old, recovery, now); err != nil {
		return state.State{}, err
	}
	next, err := change(old, recovery)
	if err != nil {
		return state.State{}, err
	}
	if next.Serial == old.Serial && recovery == "" {
		return old, nil // change made no step
	}
	if err := st.write(next); err != nil {
		return state.State{}, fmt.Errorf("save state: %w", err)
	}
	if err := st.appendLines(next.Lines); err != nil {
		return state.State{}, fmt.Errorf("append history: %w", err)
	}
	return next, st.Hook.at("done", st.path(stateFile))
}

// settle finishes what an earlier crash or corruption left before anything new
// is written: lines not yet in the history, a bad state.json to set aside.
func (st *Store) settle(old state.State, recovery Recovery, now time.Time) error {
	if recovery == "" {
		if err := st.appendMissing(old.Lines); err != nil {
			return fmt.Errorf("append history: %w", err)
		}
		return nil
	}
	if err := st.cutTorn(); err != nil {
		return fmt.Errorf("cut history: %w", err)
	}
	return st.setAside(now)
}

// setAside keeps a state file that cannot be used, under a name of its own.
func (st *Store) setAside(now time.Time) error {
	aside := st.path(stateFile + ".corrupt-" + now.UTC().Format("20060102T150405.000000000Z"))
	if err := st.Hook.at("rename", aside); err != nil {
		return err
	}
	if err := os.Rename(st.path(stateFile), aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// write makes s the state: fsynced under a temporary name, the old one linked
// to .prev, renamed, the directory fsynced.
func (st *Store) write(s state.State) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	data = append(data, '\n')
	tmp, prev, prevTmp := st.path(stateFile+".tmp"), st.path(prevFile), st.path(prevFile+".tmp")
	if err := writeSynced(st.Hook, tmp, bytes.NewReader(data)); err != nil {
		return errors.Join(err, removeIfThere(tmp))
	}
	// A leftover link must go first: rename between links of one inode does
	// nothing and would leave both names.
	if err := removeIfThere(prevTmp); err != nil {
		return err
	}
	if err := st.Hook.at("link", prev); err != nil {
		return err
	}
	if err := os.Link(st.path(stateFile), prevTmp); err == nil {
		if err := os.Rename(prevTmp, prev); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := st.Hook.at("rename", st.path(stateFile)); err != nil {
		return err
	}
	if err := os.Rename(tmp, st.path(stateFile)); err != nil {
		return err
	}
	st.recent.keep(data, s)
	return syncDir(st.Hook, st.Dir)
}

// parse reads one state file.
func (st *Store) parse(name string) (state.State, error) {
	data, err := os.ReadFile(st.path(name))
	if err != nil {
		return state.State{}, err
	}
	if s, ok := st.recent.of(data); ok {
		return s, nil
	}
	var s state.State
	err = json.Unmarshal(data, &s)
	if err != nil {
		// A newer program may write what does not fit our fields.
		var head struct {
			Version int `json:"version"`
		}
		if json.Unmarshal(data, &head) != nil || head.Version <= state.Version {
			return state.State{}, fmt.Errorf("%w: %s: %v", errCorrupt, name, err)
		}
		s.Version = head.Version
	}
	if s.Version > state.Version {
		return state.State{}, fmt.Errorf("%s has version %d, this program knows %d: %w", st.path(name), s.Version, state.Version, ErrNewer)
	}
	if err := s.Valid(); err != nil {
		return state.State{}, fmt.Errorf("%w: %s: %v", errCorrupt, name, err)
	}
	if s.Agent != st.Agent {
		return state.State{}, fmt.Errorf("%s is of %q, not of %q: %w", st.path(name), s.Agent, st.Agent, ErrOtherAgent)
	}
	st.recent.keep(data, s)
	return s, nil
}

func (st *Store) path(name string) string { return filepath.Join(st.Dir, name) }

// makeDir makes the directory, and nudges/ in it, which scripts move files into.
func (st *Store) makeDir() error {
	if err := makeDirDurably(st.Hook, st.path(NudgesDir)); err != nil {
		return fmt.Errorf("make state directory: %w", err)
	}
	return nil
}
