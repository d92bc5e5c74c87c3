package store

import (
	"errors"
	"io/fs"

	"agentstateloop/state"
)

// Recovery says in words why state.json had to be rebuilt; "" when it was not.
// Whoever commits steps a Recovered event for it, so that the operator is told
// once.
type Recovery string

// load reads the state, or rebuilds it in memory where state.json is missing
// beside .prev or a history, or cannot be used: from .prev with the newer
// history applied, from the history alone in IDLE if that is unusable too
// (DESIGN 4). Never a silent fresh start.
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
