package cycle

import (
	"context"
	"errors"
	"slices"
	"time"

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
	committer
	turn      *turn.Config // nil: no turn is run here
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
	if s, err := r.watchdog.reap(ctx); err != nil || s.Turn.NeedsRunner() {
		return err
	}
	if err := endSummary(ctx, r.store); err != nil {
		return err
	}
	p := exchangeCache{}
	for ctx.Err() == nil && !r.store.BeingRemoved() {
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

// watchdog ends the turns whose runner has died.
type watchdog struct {
	core
	ender *turnEnder
}

// watch runs at the start of each cycle. If s shows a turn that should have a
// runner, and turn.lock is free, watch reaps the turn and holds turn.lock while
// it does (docs/design.md, "The watchdog").
func (d *watchdog) watch(ctx context.Context, s state.State) (state.State, error) {
	if !s.Turn.NeedsRunner() && !stoppedWhileSuspended(s.Turn) {
		return s, nil
	}
	lock, err := d.store.TryLock(store.TurnLock)
	if err != nil || lock == nil {
		return s, err
	}
	defer lock.Unlock()
	return d.reap(ctx)
}

// stoppedWhileSuspended reports whether the turn was marked to stop while it was suspended.
// Such a turn has no runner that could end it.
func stoppedWhileSuspended(h state.Head) bool { return h.Status == state.HeadSuspended && h.Stop != "" }

// reap ends the turn of the state if it has no runner, and an agent that lingers after its
// answer without a runner. The caller holds turn.lock, so no runner is at work.
func (d *watchdog) reap(ctx context.Context) (state.State, error) {
	s, err := d.store.Read()
	if err != nil {
		return s, err
	}
	head := s.Turn
	if orphaned, err := d.orphaned(s); err != nil || orphaned {
		return s, err
	}
	switch {
	case head.Lingering():
		reason, err := d.endOrphan(ctx, head)
		if err != nil {
			return s, err
		}
		d.logf("watchdog: turn %s (epoch %d, answered): %s", head.TurnID, head.Epoch, reason)
		return d.ender.orphanExited(ctx, head, reason)
	case stoppedWhileSuspended(head):
		return d.ender.closeTurn(ctx, s, turn.Result{Status: turn.Canceled, Reason: "stopped while it waited for other agents"})
	case !head.InAttempt(), head.Pulled && head.Stop == "" && d.now().Sub(head.Since) < d.policy.TurnTimeout:
		return s, nil
	}
	reason, err := d.endOrphan(ctx, head)
	if err != nil {
		return s, err
	}
	d.logf("watchdog: turn %s (epoch %d): %s", head.TurnID, head.Epoch, reason)
	// The agent could submit until it was ended.
	if s, err = d.store.Read(); err != nil || !s.Turn.Owns(head.TurnID, head.Epoch) {
		return s, err
	}
	return d.ender.giveBack(ctx, s, reason)
}

// endOrphan ends the remaining processes of a dead runner's agent, and describes them in words.
func (d *watchdog) endOrphan(ctx context.Context, head state.Head) (string, error) {
	if head.Pulled {
		return "it was taken by `inbox next`, but not ended by `inbox done` in time", nil
	}
	dir := d.store.Path(store.AttemptDir(head.TurnID, head.Epoch))
	held, _, err := turn.Probe(dir)
	abandoned := false
	if err == nil && held {
		abandoned, err = d.endAgent(ctx, dir, turn.DefaultGrace)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return "", err
	case err != nil:
		// The agent may have spoiled its own folder. It must not hold up every later cycle, so
		// it is abandoned with its epoch, like an agent that survives KILL.
		return "its runner died, and the state of the agent cannot be read: " + err.Error(), nil
	case !held:
		return "its runner died", nil
	case abandoned:
		return "its runner died, and the agent could not be killed", nil
	}
	return "its runner died, and the agent was ended", nil
}

// endAgent ends the agent of the attempt in dir, as turn.End does; with a grace of 0 it kills it.
func (c core) endAgent(ctx context.Context, dir string, grace time.Duration) (abandoned bool, err error) {
	switch {
	case c.endTurn != nil:
		return c.endTurn(ctx, dir, grace)
	case grace == 0:
		return false, turn.Kill(ctx, dir)
	}
	return turn.End(ctx, dir, grace)
}

// withLock calls do while this process holds one of the agent's locks, and releases the lock
// however do ends. If another process holds the lock, withLock does not call do, and held is
// false.
func withLock(st *store.Store, lock string, do func() error) (held bool, err error) {
	l, err := st.TryLock(lock)
	if err != nil || l == nil {
		return false, err
	}
	defer l.Unlock()
	return true, do()
}

// ErrInterrupted means that a signal ended a poll. Its recorded results count, and the next
// poll goes on.
var ErrInterrupted error = interrupted{}

// interrupted is an error about a context that was cancelled.
type interrupted struct{}

func (interrupted) Error() string { return "interrupted" }
func (interrupted) Unwrap() error { return context.Canceled }

// withoutFaults returns the events of an interrupted cycle without its failures: the end of the
// cycle cut the connection or the program. It keeps the permanent refusals of a server, and
// mails that may have been sent.
func withoutFaults(events []state.Event) []state.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e state.Event) bool {
		switch e := e.(type) {
		case state.SourceFailed, state.CredentialFailed:
			return true
		case state.SendFailed:
			return !e.Unknown && !e.Permanent
		case state.Scheduled:
			return e.Reason != ""
		case state.Compacted:
			return e.Reason != ""
		}
		return false
	})
}
