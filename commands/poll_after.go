package commands

import (
	"context"
	"errors"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/internal/plain"
)

// pollAfter is runPoll with a warning for an error, because the record is already saved
// (docs/design.md, "Save before effects").
func pollAfter(ctx context.Context, a *cycle.Agent, out *terminal.Output) {
	_, err := runPoll(ctx, a, out)
	switch {
	case err == nil, errors.Is(err, cycle.ErrBusy):
	case errors.Is(err, cycle.ErrInterrupted):
		out.Warn("recorded; the poll after it was interrupted, and the next one goes on")
	default:
		out.Warn("recorded, but the poll after it failed: %v", err)
	}
}

// runPoll runs a cycle for a new record. If a turn can run, it leaves that to a detached poll.
// The error wraps cycle.ErrBusy if another poll is running, which checks again before it ends.
func runPoll(ctx context.Context, a *cycle.Agent, out *terminal.Output) (cycle.Report, error) {
	r, err := a.Poll(ctx, cycle.PollOptions{NoTurn: true, LeaveLarge: true})
	if err != nil {
		return r, err
	}
	for _, f := range r.Failed {
		out.Warn("%s: %s", f.Source, plain.Line(f.Reason))
	}
	if r.TurnWaiting {
		detach(a, out)
	}
	return r, nil
}

// detach starts a background poll, which runs the turn.
func detach(a *cycle.Agent, out *terminal.Output) {
	if err := a.Detach(); err != nil {
		out.Warn("%v; the next poll runs the turn", err)
	}
}
