package store

import (
	"errors"
	"io/fs"

	"agentstateloop/state"
)

// Recovery is why state.json had to be rebuilt, in words; "" if it was not. The
// caller that commits steps a Recovered event for it, so that the operator is
// informed once.
type Recovery string

// load is loadStored for a caller that does not need the chain.
func (st *Store) load() (state.State, Recovery, error) {
	s, why, err := st.loadStored()
	return s.State, why, err
}

// loadStored reads the state. It rebuilds the state in memory if state.json cannot be
// used, or is missing though there is a .prev or a history: from .prev with the
// newer history applied, or from the history alone, in IDLE, if .prev cannot be used
// either (docs/design.md, "Recovery"). It never starts again from nothing in
// silence. The chain then goes on where the history ends.
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
