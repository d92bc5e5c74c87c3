package cycle

import (
	"context"

	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// watchdog ends the turns whose runner has died.
type watchdog struct {
	core
	ender *turnEnder
}

// watch runs at the start of each cycle. If s shows a turn that should have a
// runner, and turn.lock is free, watch reaps the turn and holds turn.lock while
// it does (docs/design.md, "The watchdog").
func (d *watchdog) watch(ctx context.Context, s state.State) (state.State, error) {
	if !owned(s.Turn) && !stoppedWhileSuspended(s.Turn) && !s.Turn.Lingering() {
		return s, nil
	}
	lock, err := d.store.TryLock(store.TurnLock)
	if err != nil || lock == nil {
		return s, err
	}
	defer lock.Unlock()
	return d.reap(ctx)
}

// owned reports whether the turn should have a living runner.
func owned(h state.Head) bool {
	return h.Status == state.HeadDispatched || h.Status == state.HeadRunning
}

// stoppedWhileSuspended reports whether the turn was marked to stop while it was suspended.
// Such a turn has no runner that could end it.
func stoppedWhileSuspended(h state.Head) bool { return h.Status == state.HeadSuspended && h.Stop != "" }

// reap ends the turn that the state shows, if it has no runner, and an agent that
// lingers after its answer and has none. The caller
// holds turn.lock, so no runner is at work.
func (d *watchdog) reap(ctx context.Context) (state.State, error) {
	s, err := d.store.Read()
	if err != nil {
		return s, err
	}
	head := s.Turn
	switch {
	case head.Lingering():
		reason, err := d.endOrphan(ctx, head)
		if err != nil {
			return s, err
		}
		d.logf("watchdog: turn %s (epoch %d), which was answered: %s", head.TurnID, head.Epoch, reason)
		return d.ender.left(ctx, head, reason)
	case stoppedWhileSuspended(head):
		return d.ender.closeTurn(ctx, s, turn.Result{Status: turn.Canceled, Reason: "stopped while it waited for other agents"})
	case !owned(head), head.Pulled && head.Stop == "" && d.now().Sub(head.Since) < d.policy.TurnTimeout:
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

// endOrphan ends what is left of a dead runner's agent, and returns in words
// what it found.
func (d *watchdog) endOrphan(ctx context.Context, head state.Head) (string, error) {
	if head.Pulled {
		return "it was taken by `inbox next` and not done", nil
	}
	dir := d.store.Path(attemptDir(head.TurnID, head.Epoch))
	held, _, err := turn.Probe(dir)
	abandoned := false
	if err == nil && held {
		abandoned, err = turn.End(ctx, dir, turn.DefaultGrace)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return "", err
	case err != nil:
		// The agent may have spoiled its own folder. It must not hold up every
		// later cycle, so it is abandoned with its epoch, as one that survives
		// KILL is.
		return "its runner died, and the state of the agent cannot be read: " + err.Error(), nil
	case !held:
		return "its runner died", nil
	case abandoned:
		return "its runner died, and the agent could not be killed", nil
	}
	return "its runner died, and the agent was ended", nil
}
