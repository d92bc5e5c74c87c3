package cycle

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"agentstateloop/cycle/files"
	"agentstateloop/fleet/seat"
	"agentstateloop/internal/secret"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// journal makes events durable. Nothing else changes the state.
type journal struct {
	core
	renderer  *renderer
	announcer announcer

	announced  *uint32 // set when an event for a hook was committed
	turnFailed *uint32 // set when the end of a failed turn was committed
}

// commit steps the machine by events and makes the result durable, together with the bytes of
// every effect that it queued. It removes the bytes of the effects that it ended. A commit that
// has begun is finished even if ctx ends, because past events must be recorded. Failures that
// the end of ctx caused are not recorded.
func (j *journal) commit(ctx context.Context, events ...state.Event) (state.State, error) {
	return j.commitWith(ctx, func(state.State) error { return nil }, events...)
}

// commitWith is commit, but calls with while it holds state.lock: after the step, before its
// result is durable. An error from with undoes the step. The error is a MovedError if the agent was
// moved to another machine.
func (j *journal) commitWith(ctx context.Context, with func(next state.State) error, events ...state.Event) (state.State, error) {
	if ctx.Err() != nil && len(events) > 0 {
		if events = withoutFaults(events); len(events) == 0 {
			return j.store.Read()
		}
	}
	now := j.now()
	var old state.State
	next, err := j.store.Commit(context.WithoutCancel(ctx), now, func(s state.State, why store.Recovery) (state.State, error) {
		old = s
		if !s.MayChange(events...) {
			return s, j.moved(s)
		}
		next := j.step(s, j.redact(append(eventsOf(why, s, events), events...)), now)
		if err := with(next); err != nil {
			return next, err
		}
		return next, j.renderNew(&next, now)
	})
	if err != nil {
		return next, err
	}
	if next.Serial != old.Serial {
		if slices.ContainsFunc(next.Lines, isFailedTurn) {
			atomic.StoreUint32(j.turnFailed, 1)
		}
		j.announcer.announce(old.Turn, next.Lines)
	}
	for _, e := range slices.Concat(old.Outbox, old.Undelivered, old.HookCalls) {
		if !next.Keeps(e.ID) && e.File != "" {
			j.removeEffect(e)
			if !next.KeepsFiles(e.ID) {
				files.Outgoing{Store: j.store}.GiveBack(e.Files)
			}
		}
	}
	for _, u := range old.Unfiled {
		if !next.KeepsFiles(u.ID) {
			files.Outgoing{Store: j.store}.GiveBack(u.Files)
		}
	}
	return next, nil
}

// readOwn returns the state. If it is a copy, the restore is committed first, so that all that the
// caller observes is judged after it.
func (j *journal) readOwn(ctx context.Context) (state.State, error) {
	copied, err := j.store.Copied()
	if err != nil {
		return state.State{}, err
	}
	if copied {
		return j.commit(ctx)
	}
	return j.store.Read()
}

// eventsOf returns the events for a state that is not as the last commit left it. No event is
// needed for a copy if one of the events says where the state comes from.
func eventsOf(why store.Recovery, s state.State, events []state.Event) (found []state.Event) {
	if why.Reason != "" {
		found = append(found, state.Recovered{Reason: why.Reason})
	}
	known := slices.ContainsFunc(events, func(e state.Event) bool {
		switch e.(type) {
		case state.Restored, state.Unmoved:
			return true
		}
		return false
	})
	if why.Copied && !known {
		found = append(found, state.Restored{Made: s.LastStep, From: "a copy of the state directory", Seed: store.NewID()})
	}
	return found
}

// removeEffect removes the bytes of an effect from the outbox; the history has its trace. It keeps
// a sent mail, so that our text can be found in answers to it, but not a challenge, which holds a
// token. Losing a kept mail costs the agent some reading.
func (j *journal) removeEffect(e state.Effect) {
	if e.Channel == state.ByMail && e.Kind != state.Challenge {
		err := j.store.Move(e.File, sentFile(e.ID))
		if err == nil {
			return
		}
		j.renderer.logf("%s cannot be saved in %s/: %v", e.ID, store.SentDir, err)
	}
	_ = j.store.Remove(e.File)
}

// redact returns the events without the secrets that this process knows, because the texts in
// events are kept, mailed and shown.
func (j *journal) redact(events []state.Event) []state.Event {
	return state.Redact(events, j.secrets.Redact)
}

// renderNew writes the bytes of the effects that this step queued, before the state that names
// them. It skips effects that are rendered already.
func (j *journal) renderNew(s *state.State, now time.Time) error {
	for _, rows := range [][]state.Effect{s.Outbox, s.HookCalls} {
		for i := range rows {
			if rows[i].File != "" {
				continue
			}
			if err := j.keepRendered(s, &rows[i], now); err != nil {
				return err
			}
		}
	}
	return nil
}

// keepRendered writes the bytes of one effect.
func (j *journal) keepRendered(s *state.State, row *state.Effect, now time.Time) error {
	data, err := j.renderer.render(*s, *row, now)
	if err != nil {
		return fmt.Errorf("render %s: %w", row.ID, err)
	}
	name := effectFile(*row)
	sum, err := j.store.KeepSummed(name, bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("save %s: %w", row.ID, err)
	}
	row.File, row.Sum = name, sum
	s.NameFile(row.ID, name, sum)
	if row.Channel == state.ByHook {
		atomic.StoreUint32(j.announced, 1)
	}
	return nil
}

// effectFile returns the path of an effect's bytes, below the state directory.
func effectFile(e state.Effect) string {
	ext := ".eml"
	switch e.Channel {
	case state.ByMesh:
		ext = ".json"
	case state.ByHook:
		ext = ".hook"
	}
	return store.PayloadName(store.OutboxDir, e.ID, ext)
}

// core holds what nearly every part of an agent uses. It can read the state, but only a
// committer can change it.
type core struct {
	handle   string
	store    *store.Store
	policy   *state.Policy
	now      func() time.Time
	secrets  *secret.Known
	stepFunc state.StepFunc // replaces state.Step; nil: state.Step itself
	seat     *seat.Seat     // of an agent with several hosts; nil: this host alone acts
	endTurn  func(ctx context.Context, dir string, grace time.Duration) (abandoned bool, err error)
}

// step returns the state after the events.
func (c core) step(s state.State, events []state.Event, now time.Time) state.State {
	if c.stepFunc != nil {
		return c.stepFunc(s, events, *c.policy, now)
	}
	return state.Step(s, events, *c.policy, now)
}

// committer is the core of a part that commits events.
type committer struct {
	core
	journal *journal
}

// logf adds a line to the agent's log. It ignores errors: a log that cannot be written
// must stop nothing.
func (c core) logf(format string, args ...any) {
	_ = c.store.Log(c.now(), c.secrets.Redact(fmt.Sprintf(format, args...)))
}
