package commands

import (
	"errors"
	"fmt"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/internal/memory"
	"agentstateloop/internal/plain"
)

// pollAfter is runPoll with a warning for an error, because the record is already saved
// (docs/design.md, "Save before effects").
func (c *call) pollAfter(a *cycle.Agent) {
	_, err := c.runPoll(a)
	switch {
	case err == nil, errors.Is(err, cycle.ErrBusy):
	case errors.Is(err, cycle.ErrInterrupted):
		c.out.Warn("recorded; the poll after it was interrupted, and the next one continues")
	default:
		c.out.Warn("recorded, but the poll after it failed: %v", err)
	}
}

// runPoll runs a cycle for a new record. If a turn can run, it leaves that to a detached poll.
// The error wraps cycle.ErrBusy if another poll is running, which checks again before it ends.
func (c *call) runPoll(a *cycle.Agent) (cycle.Report, error) {
	r, err := a.Poll(c.ctx, cycle.PollOptions{NoTurn: true, LeaveLarge: true})
	if err != nil {
		return r, err
	}
	for _, f := range r.Failed {
		c.out.Warn("%s: %s", f.Source, plain.Line(f.Reason))
	}
	if r.TurnWaiting {
		c.detach(a)
	}
	return r, nil
}

// detach starts a background poll, which runs the turn.
func (c *call) detach(a *cycle.Agent) {
	if err := a.Detach(); err != nil {
		c.out.Warn("%v; the next poll runs the turn", err)
	}
}

// maxMemory limits the memory of a poll, in bytes. A mail of the maximum size and its parts fit
// well.
const maxMemory = 512 << 20

// withinMemory runs work, which polls for a. If the process exceeds limit bytes meanwhile,
// withinMemory logs that and returns an error at once. work may still be running, and ends with
// the process.
//
// Only poll has this limit, because cron runs it unattended. The other commands with a cycle
// have more to do after it. A listener serves many agents, and would end for them all.
func withinMemory(a *cycle.Agent, limit uint64, work func() error) error {
	var err error
	if memory.Guard(limit, a.Secrets, func() { err = work() }) {
		return err
	}
	exceeded := fmt.Errorf("the poll ended because it used more than %d MiB of memory", limit>>20)
	_ = a.Store.Log(a.Now(), exceeded.Error()) // a failed write to the log is ignored
	return terminal.WithHint(exceeded, "the next poll reads the unrecorded messages again; if it ends the same way, a source sends too much")
}
