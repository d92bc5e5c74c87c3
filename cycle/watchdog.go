package cycle

import (
	"context"
	"fmt"

	"agentstateloop/state"
	"agentstateloop/turn"
)

// watch is the watchdog, at the start of each cycle: a turn that is dispatched
// or running while nobody holds turn.lock has lost its owner. With the lock
// held from probe to commit, what is left of its agent is ended and the turn
// reaped (DESIGN 6).
func (a *Agent) watch(ctx context.Context, s state.State) (state.State, error) {
	if !owned(s.Turn) {
		return s, nil
	}
	lock, err := a.Store.TryLock(state.TurnLock)
	if err != nil || lock == nil {
		return s, err
	}
	defer lock.Unlock()
	return a.reap(ctx)
}

// owned says whether the turn should have a living owner.
func owned(h state.Head) bool {
	return h.Status == state.HeadDispatched || h.Status == state.HeadRunning
}

// reap ends the turn that the state shows, if there is one that should have an
// owner. The caller holds turn.lock, so that it has none.
func (a *Agent) reap(ctx context.Context) (state.State, error) {
	s, err := a.Store.Read()
	if err != nil || !owned(s.Turn) {
		return s, err
	}
	head := s.Turn
	dir := a.Store.Path(attemptDir(head.TurnID, head.Epoch))
	reason := "its runner died"
	held, _, err := turn.Probe(dir)
	if err != nil {
		return s, err
	}
	if held {
		abandoned, err := turn.End(ctx, dir, turn.DefaultGrace)
		if err != nil {
			return s, err
		}
		reason = "its runner died, the agent was ended"
		if abandoned {
			reason = "its runner died, and the agent did not let itself be ended"
		}
	}
	a.log("watchdog: turn %s (epoch %d): %s", head.TurnID, head.Epoch, reason)
	return a.giveBack(ctx, s, reason)
}

// giveBack returns a turn's message to the inbox, or, when its attempts are
// used up, closes the turn with a fallback deliverable.
func (a *Agent) giveBack(ctx context.Context, s state.State, reason string) (state.State, error) {
	head := s.Turn
	msg, ok := s.Find(head.Key)
	if !ok || msg.Attempts < a.Policy.MaxAttempts {
		return a.commit(ctx, state.Reaped{TurnID: head.TurnID, Epoch: head.Epoch, Reason: reason})
	}
	w, err := a.load(head, msg)
	if err != nil {
		reason += "; " + err.Error()
	}
	return a.deliver(ctx, w, turn.Result{
		Status: turn.Failed,
		Reason: fmt.Sprintf("%s, and it was attempt %d of %d", reason, msg.Attempts, a.Policy.MaxAttempts),
	})
}
