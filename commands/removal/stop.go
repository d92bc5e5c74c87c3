package removal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// patience is how long Stop waits for the processes of an agent. A poll that waits for a server is
// the longest.
const patience = 2 * time.Minute

// Stop ends the running turn as `stop` does, makes the listener leave the agent, ends a lingering
// poll, and waits for every other process of the agent. Nothing new begins until release is called
// or the state directory is gone. a is nil without a usable configuration: then the agent of a
// running turn is ended, and its output is not delivered. waits is called with each lock that
// another process holds.
func Stop(ctx context.Context, st *store.Store, a *cycle.Agent, waits func(lock string)) (release func(), err error) {
	if _, err := os.Stat(st.Dir); errors.Is(err, os.ErrNotExist) {
		return func() {}, nil
	}
	if err := st.MarkRemoval(); err != nil {
		return nil, err
	}
	unmark := func() { _ = st.UnmarkRemoval() } // a leftover mark is named by the listener, and init removes it
	if a != nil {
		err = a.Stop(ctx, "uninstall --purge")
	}
	if a == nil || err != nil && !errors.Is(err, cycle.ErrNothing) {
		err = endAgent(ctx, st)
	}
	if err != nil && !errors.Is(err, cycle.ErrNothing) {
		unmark()
		return nil, fmt.Errorf("stop the running turn: %w", err)
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	free, err := st.HoldAll(waiting, waits)
	if err == nil {
		if err = endAgent(ctx, st); err != nil { // its runner had died
			free()
		}
	}
	if err != nil {
		unmark()
		return nil, err
	}
	return func() { free(); unmark() }, nil
}

// endAgent ends the processes of the agent in the turn of the state.
func endAgent(ctx context.Context, st *store.Store) error {
	s, err := st.Read()
	if err != nil || !s.Turn.InAttempt() && !s.Turn.Lingering() {
		return nil // an unreadable state names no turn
	}
	dir := st.Path(store.AttemptDir(s.Turn.TurnID, s.Turn.Epoch))
	if held, _, err := turn.Probe(dir); err != nil || !held {
		return nil // the agent may have spoiled its own folder
	}
	_, err = turn.End(ctx, dir, turn.DefaultGrace)
	return err
}
