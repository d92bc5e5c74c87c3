package store

import (
	"errors"
	"io/fs"

	"agentstateloop/state"
)

// Recovery is the reason state.json had to be rebuilt, in words, or "" if it was intact. The caller
// that commits steps a Recovered event for it, so the operator is informed once.
type Recovery string

// load is loadStored for a caller that does not need the chain.
func (st *Store) load() (state.State, Recovery, error) {
	s, why, err := st.loadStored()
	return s.State, why, err
}

// loadStored reads the state. It rebuilds the state in memory if state.json is unusable, or is
// missing although a .prev or a history exists. It rebuilds from .prev with the newer history
// applied, or, if .prev is unusable too, from the history alone, in IDLE (docs/design.md,
// "Recovery"). The chain then continues at the end of the history. loadStored never silently starts
// with an empty state.
func (st *Store) loadStored() (stored, Recovery, error) {
	s, err := st.parseStored(stateFile)
	if err == nil {
		return s, "", nil
	}
	missing := errors.Is(err, fs.ErrNotExist)
	if !missing && !errors.Is(err, errCorrupt) {
		return stored{}, "", err
	}
	prev, prevErr := st.parse(prevFile)
	if prevErr != nil && !errors.Is(prevErr, fs.ErrNotExist) && !errors.Is(prevErr, errCorrupt) {
		return stored{}, "", prevErr
	}
	lines, histErr := st.allLines()
	if histErr != nil {
		return stored{}, "", histErr
	}
	lines, torn := state.Whole(lines)
	if missing && errors.Is(prevErr, fs.ErrNotExist) && len(lines) == 0 {
		return stored{State: state.New(st.Agent, NewID())}, "", nil
	}
	end, histErr := st.newestSum(torn)
	if histErr != nil {
		return stored{}, "", histErr
	}
	why := Recovery("it could not be read")
	if missing {
		why = "it was missing"
	}
	if prevErr == nil {
		return stored{State: state.Replay(prev, lines), Chain: end}, why, nil
	}
	return stored{State: state.Rebuild(state.New(st.Agent, NewID()), lines), Chain: end}, why + ", and its copy too", nil
}
