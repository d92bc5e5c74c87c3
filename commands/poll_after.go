package commands

import (
	"context"
	"errors"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/internal/plain"
)

// pollAfter runs a cycle for what was just recorded, and leaves a turn that
// could run now to a detached poll. ok is false if no cycle ran: then another
// poll is running, and looks once more. Nothing can be lost any more, so trouble
// is a warning (docs/design.md, "Save before effects").
func pollAfter(ctx context.Context, a *cycle.Agent, out *terminal.Output) (r cycle.Report, ok bool) {
	r, err := a.Poll(ctx, cycle.PollOptions{NoTurn: true, LeaveLarge: true})
	if errors.Is(err, cycle.ErrBusy) {
		return r, false
	}
	if errors.Is(err, cycle.ErrInterrupted) {
		out.Warn("recorded; the poll after it was interrupted, and the next one goes on")
		return r, false
	}
	if err != nil {
		out.Warn("recorded, but the poll after it failed: %v", err)
		return r, false
	}
	for _, f := range r.Failed {
		out.Warn("%s: %s", f.Source, plain.Line(f.Reason))
	}
	if r.TurnWaiting {
		detach(a, out)
	}
	return r, true
}

// detach starts a poll in the background, which runs the turn.
func detach(a *cycle.Agent, out *terminal.Output) {
	if err := a.Detach(); err != nil {
		out.Warn("%v; the next poll runs the turn", err)
	}
}
