package cycle

import (
	"context"
	"errors"

	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// Turns runs the inbox, one message at a time, until no message can run, and returns the number
// of attempts. If another runner is at work, Turns leaves the messages to it and returns no
// error.
func (a *Agent) Turns(ctx context.Context) (int, error) {
	var r Report
	err := a.runner().run(ctx, &r)
	return r.Turns, err
}

// runner runs the messages of the inbox, one turn each.
type runner struct {
	core
	turn      *turn.Config // nil: no turn is run here
	journal   *journal
	watchdog  *watchdog
	guard     *payloadGuard
	compactor *compactor
	attempts  []*attempter // one for each backend
	flusher   *flusher
	acks      *ackTimer
}

// run is Turns; it adds its attempts and its sends to the report.
func (r *runner) run(ctx context.Context, report *Report) error {
	if r.turn == nil {
		return nil
	}
	defer r.acks.begin(ctx)()
	for ctx.Err() == nil {
		s, err := r.store.Read()
		if err != nil {
			return err
		}
		if !s.CanRun(*r.policy, r.now()) {
			return nil
		}
		held, err := withLock(r.store, store.TurnLock, func() error { return r.drain(ctx, report) })
		if errors.Is(err, errDenied) {
			return nil
		}
		if err != nil || !held {
			return err
		}
	}
	return nil
}

// drain claims and runs messages until the inbox has no more. The caller holds turn.lock, so a
// turn that drain finds under way has lost its runner.
func (r *runner) drain(ctx context.Context, report *Report) error {
	if _, err := r.watchdog.reap(ctx); err != nil {
		return err
	}
	if err := endSummary(ctx, r.store); err != nil {
		return err
	}
	p := exchangeCache{}
	for ctx.Err() == nil {
		damaged, err := r.guard.check(ctx, *r.policy)
		if err != nil {
			return err
		}
		report.damaged += damaged
		s, err := r.journal.commit(ctx, state.Claimed{})
		if err != nil || s.Turn.Status != state.HeadDispatched {
			return err
		}
		n, _ := s.Backend(*r.policy, r.now()) // the claim has found a backend, or the message is pulled
		s, err = r.attempts[max(0, n)].runTurn(ctx, s, p, func(s state.State) error { return r.flusher.sendDue(ctx, s, report) })
		denied := errors.Is(err, errDenied)
		if err != nil && !denied {
			return err
		}
		report.Turns++
		if err := r.flusher.sendDue(ctx, s, report); err != nil { // the reply, or the notice about the credential
			return err
		}
		if denied {
			return errDenied
		}
	}
	return nil
}
