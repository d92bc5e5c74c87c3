package cycle

import (
	"context"
	"fmt"

	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// watch is the watchdog, at the start of each cycle: a turn that is dispatched
// or running while nobody holds turn.lock has lost its owner. With the lock
// held from probe to commit, what is left of its agent is ended and the turn
// reaped (DESIGN 6). A suspended turn that is to stop has no owner either.
func (a *Agent) watch(ctx context.Context, s state.State) (state.State, error) {
	if !owned(s.Turn) && !laidDown(s.Turn) {
		return s, nil
	}
	lock, err := a.Store.TryLock(store.TurnLock)
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

// laidDown says whether the turn was marked to stop while it was suspended.
func laidDown(h state.Head) bool { return h.Status == state.HeadSuspended && h.Stop != "" }

// reap ends the turn that the state shows, if there is one without an owner.
// The caller holds turn.lock, so that nobody owns it.
func (a *Agent) reap(ctx context.Context) (state.State, error) {
	s, err := a.Store.Read()
	if err != nil {
		return s, err
	}
	head := s.Turn
	switch {
	case laidDown(head):
		return a.closed(ctx, s, turn.Result{Status: turn.Canceled, Reason: "stopped while it waited for other agents"})
	case !owned(head), head.Pulled && head.Stop == "" && a.Now().Sub(head.Since) < a.Policy.TurnTimeout:
		return s, nil
	}
	reason, err := a.endOrphan(ctx, head)
	if err != nil {
		return s, err
	}
	a.log("watchdog: turn %s (epoch %d): %s", head.TurnID, head.Epoch, reason)
	// Until it was ended, the agent could submit.
	if s, err = a.Store.Read(); err != nil || !s.Turn.Owns(head.TurnID, head.Epoch) {
		return s, err
	}
	return a.giveBack(ctx, s, reason)
}

// endOrphan ends what is left of a dead runner's agent, and says in words what
// was found.
func (a *Agent) endOrphan(ctx context.Context, head state.Head) (string, error) {
	if head.Pulled {
		return "it was taken by `inbox next` and not done", nil
	}
	dir := a.Store.Path(attemptDir(head.TurnID, head.Epoch))
	held, _, err := turn.Probe(dir)
	abandoned := false
	if err == nil && held {
		abandoned, err = turn.End(ctx, dir, turn.DefaultGrace)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return "", err
	case err != nil:
		// The agent may have spoiled its own folder. Like one that outlives KILL
		// it is abandoned with its epoch: it must not hold up every later cycle.
		return "its runner died, and what became of the agent cannot be seen: " + err.Error(), nil
	case !held:
		return "its runner died", nil
	case abandoned:
		return "its runner died, and the agent did not let itself be ended", nil
	}
	return "its runner died, the agent was ended", nil
}

// giveBack returns a turn's message to the inbox, unless the turn is over all
// the same: it was submitted, was to stop, or its attempts or its budget are
// used up. Then it is closed with what there is.
func (a *Agent) giveBack(ctx context.Context, s state.State, reason string) (state.State, error) {
	head := s.Turn
	msg, ok := s.Message(head.Key)
	bill := a.billed(s, head)
	switch {
	case head.Submitted != "":
		return a.closed(ctx, s, turn.Result{Status: turn.Success})
	case head.Stop != "":
		return a.closed(ctx, s, turn.Result{Status: turn.Canceled, Reason: "stopped; " + reason})
	case ok && msg.Attempts >= a.Policy.MaxAttempts:
		return a.closed(ctx, s, turn.Result{
			Status: turn.Failed,
			Reason: fmt.Sprintf("%s, and it was attempt %d of %d", reason, msg.Attempts, a.Policy.MaxAttempts),
		})
	case a.overspent(s, head, bill):
		return a.closed(ctx, s, turn.Result{Status: turn.Failed, Reason: reason + ", and " + a.turnBudget() + " is used up"})
	}
	return a.commit(ctx, append(bill, state.Reaped{TurnID: head.TurnID, Epoch: head.Epoch, Reason: reason})...)
}

// closed closes the turn of s with a fallback deliverable: the given ending,
// what the agent had said by then, and whatever it had left in its output box.
func (a *Agent) closed(ctx context.Context, s state.State, r turn.Result) (state.State, error) {
	msg, _ := s.TurnMessage()
	w, err := a.load(s.Turn, msg)
	if err != nil {
		r.Notes = append(r.Notes, err.Error())
	}
	dir := a.Store.Path(w.dir())
	if r.Text == "" {
		r.Text = turn.ReplayOutput(dir)
	}
	if !w.head.Pulled {
		r.Bill = turn.ReplayBill(dir)
	}
	if files, notes, err := turn.ListOutput(dir); err == nil {
		r.Output, r.Notes = files, append(r.Notes, notes...)
	}
	return a.deliver(ctx, s, w, r)
}
