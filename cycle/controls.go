package cycle

import (
	"context"

	"agentstateloop/state"
)

// Order moves the machine to a phase, as `transition` does. It also makes the agent manage its
// crontab line again after an `uninstall`.
func (a *Agent) Order(ctx context.Context, to state.Phase, reason string, noMail bool) (state.State, error) {
	return a.journal().commit(ctx,
		state.Unscheduled{Removed: false},
		state.Ordered{To: to, Reason: reason, NoMail: noMail},
	)
}

// Halt sets HALT for this agent alone.
func (a *Agent) Halt(ctx context.Context, reason string) (state.State, error) {
	return a.journal().commit(ctx, state.Switched{On: true, Reason: reason})
}

// Resume lifts the HALT that Halt has set. A HALT that was set on the mesh must be lifted
// there.
func (a *Agent) Resume(ctx context.Context, reason string) (state.State, error) {
	return a.journal().commit(ctx, state.Switched{On: false, Reason: reason})
}

// Stop marks the active turn as stopped. Its runner ends the agent and delivers the partial
// result, marked canceled. Stop returns ErrNothing if no turn is active.
func (a *Agent) Stop(ctx context.Context, reason string) error {
	s, err := a.journal().commit(ctx, state.Stopped{Reason: reason})
	if err != nil {
		return err
	}
	if s.Turn.Status == state.HeadIdle && !s.Turn.Lingering() {
		return ErrNothing
	}
	if s, err = a.watchdog().watch(ctx, s); err != nil {
		return err
	}
	return a.flusher().sendNow(ctx, s)
}

// Reset makes the agent begin again without its memory, and gives its next context a note. Its
// working memory is set aside, because it was learned before the reset.
func (a *Agent) Reset(ctx context.Context, note, origin string) error {
	_, err := a.journal().commitWith(ctx, func(state.State) error { return a.Store.SetMemoryAside() },
		state.MemoryReset{Note: note, Origin: origin})
	return err
}
