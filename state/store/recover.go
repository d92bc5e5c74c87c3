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

// load reads the state. It rebuilds the state in memory if state.json cannot be
// used, or is missing though there is a .prev or a history: from .prev with the
// newer history applied, or from the history alone, in IDLE, if .prev cannot be used
// either (docs/design.md, "Recovery"). It never starts again from nothing in
// silence.
func (st *Store) load() (state.State, Recovery, error) {
	s, err := st.parse(stateFile)
	if err == nil {
		return s, "", nil
	}
	missing := errors.Is(err, fs.ErrNotExist)
	if !missing && !errors.Is(err, errCorrupt) {
		return state.State{}, "", err
	}
	prev, prevErr := st.parse(prevFile)
	if prevErr != nil && !errors.Is(prevErr, fs.ErrNotExist) && !errors.Is(prevErr, errCorrupt) {
		return state.State{}, "", prevErr
	}
	lines, histErr := st.allLines()
	if histErr != nil {
		return state.State{}, "", histErr
	}
	lines, _ = state.Whole(lines)
	if missing && errors.Is(prevErr, fs.ErrNotExist) && len(lines) == 0 {
		return state.New(st.Agent, NewID()), "", nil
	}
	why := Recovery("it could not be read")
	if missing {
		why = "it was missing"
	}
	if prevErr == nil {
		return state.Replay(prev, lines), why, nil
	}
	return state.Rebuild(state.New(st.Agent, NewID()), lines), why + ", and its copy too", nil
}
