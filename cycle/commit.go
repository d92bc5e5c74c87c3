package cycle

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	"agentstateloop/state"
	"agentstateloop/state/store"
)

// commit steps the machine by events and makes the result durable, together
// with the bytes of every effect it gave rise to; the bytes of those that it
// ended are removed. A commit under way is not given up when ctx ends: what has
// happened must be told.
func (a *Agent) commit(ctx context.Context, events ...state.Event) (state.State, error) {
	return a.commitWith(ctx, func(state.State) error { return nil }, events...)
}

// commitWith is commit, and does something else under state.lock: after the
// step, before its result is durable. An error of it undoes the step.
func (a *Agent) commitWith(ctx context.Context, with func(next state.State) error, events ...state.Event) (state.State, error) {
	now := a.Now()
	var old state.State
	next, err := a.Store.Commit(context.WithoutCancel(ctx), now, func(s state.State, why store.Recovery) (state.State, error) {
		old = s
		if why != "" {
			events = append([]state.Event{state.Recovered{Reason: string(why)}}, events...)
		}
		next := state.Step(s, a.redact(events), a.Policy, now)
		if err := with(next); err != nil {
			return next, err
		}
		return next, a.renderNew(&next, now)
	})
	if err != nil {
		return next, err
	}
	for _, e := range old.Outbox {
		if _, stillThere := next.Effect(e.ID); !stillThere && e.File != "" {
			_ = os.Remove(a.Store.Path(e.File)) // its trace is in the history
		}
	}
	return next, nil
}

// renderNew writes the bytes of the effects that this step queued and that did
// not come rendered, before the state that names them.
func (a *Agent) renderNew(s *state.State, now time.Time) error {
	for i := range s.Outbox {
		if s.Outbox[i].File != "" {
			continue
		}
		data, err := a.render(*s, s.Outbox[i], now)
		if err != nil {
			return fmt.Errorf("render %s: %w", s.Outbox[i].ID, err)
		}
		name := effectFile(s.Outbox[i])
		if err := a.Store.Keep(name, bytes.NewReader(data)); err != nil {
			return fmt.Errorf("keep %s: %w", s.Outbox[i].ID, err)
		}
		s.Outbox[i].File = name
		s.NameFile(s.Outbox[i].ID, name)
	}
	return nil
}

// effectFile is where the bytes of an effect are kept. The epoch keeps a stale
// runner from writing over what the turn's owner has rendered.
func effectFile(e state.Effect) string {
	ext := ".eml"
	if e.Channel == state.ByMesh {
		ext = ".json"
	}
	return store.PayloadName(store.OutboxDir, e.ID, ext)
}
