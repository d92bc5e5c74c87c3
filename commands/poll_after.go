package commands

import (
	"context"
	"errors"

	"agentstateloop/cycle"
	"agentstateloop/internal/plain"
)

// follow runs a cycle for what was just made durable, and leaves a turn that
// could run now to a detached poll. A busy agent is fine: whoever polls looks
// once more. Since nothing can be lost any more, trouble is told and is no
// failure (DESIGN 3: durable first, then exit 0). ok is false if no cycle ran.
func (p *program) follow(ctx context.Context, a *cycle.Agent) (r cycle.Report, ok bool) {
	r, err := a.Poll(ctx, cycle.PollOptions{NoTurn: true})
	if errors.Is(err, cycle.ErrBusy) {
		return r, false
	}
	if err != nil {
		p.out.Warn("recorded, but the poll that should follow failed: %v", err)
		return r, false
	}
	for _, f := range r.Failed {
		p.out.Warn("%s: %s", f.Source, plain.Line(f.Reason))
	}
	if r.TurnWaiting {
		if err := a.Detach(); err != nil {
			p.out.Warn("%v; the next poll runs the turn", err)
		}
	}
	return r, true
}
