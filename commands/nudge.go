package commands

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/state"
)

// nudgePatience is how long nudge --wait waits.
const nudgePatience = 5 * time.Minute

func (p *program) nudgeCommand() *cli.Command {
	return &cli.Command{
		Name:      "nudge",
		Usage:     "wake the agent now, or another one through the mesh",
		ArgsUsage: "[HANDLE]",
		Description: `Rings like a doorbell: an agent in IDLE goes to PREP and looks for messages
each minute. The nudge is recorded first and cannot get lost; then one cycle
runs at once, without the turns, which a poll in the background runs.

With --wait it returns when the nudge is polled, or with --wait=POINT when it
is queued, polled, turned (all that it woke the agent for has run) or
delivered (and was sent; done is the same), and exits 4 if HALT or the mesh
refuses it, 5 when --timeout is over, 6 if a turn or a delivery failed.

A HANDLE whose configuration lies beside yours is rung in the same way. Any
other is rung through the mesh; what it does then is not known here, so there
is only --wait=queued.

Example:
  make && agentstateloop nudge --reason "build is green"
  agentstateloop nudge --wait=done --timeout 2m --json`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "from", Usage: "`NAME` of who nudges, for log and history"},
			&cli.StringFlag{Name: "reason", Usage: "why, as `TEXT` for log and history"},
			&cli.GenericFlag{Name: "wait", Value: &optional{without: string(cycle.PointPolled), choices: points}, Usage: "wait until it is polled, or has come to `POINT`"},
			durationFlag("timeout", "wait at most so `LONG`", nudgePatience),
			switchFlag("no-poll", "only record it, for the next poll"),
		},
		Action: p.nudge,
	}
}

func (p *program) nudge(c *cli.Context) error {
	if err := arguments(c, 0, 1); err != nil {
		return err
	}
	a, err := p.agent(c)
	if err != nil {
		return err
	}
	handle := strings.TrimPrefix(c.Args().First(), "@")
	if handle != "" && handle != a.Handle {
		own := p.neighbour(a, handle)
		if own == nil {
			return p.nudgeOther(c, a, handle)
		}
		a = own
	}
	rung, err := a.RingMarked(c.String("from"), c.String("reason"))
	if err != nil {
		return err
	}
	result := nudged{Agent: a.Handle}
	if !c.Bool("no-poll") {
		if r, ok := p.follow(c.Context, a); ok {
			r = reportJSON(r)
			result.Poll = &r
		}
	}
	var failed error
	if point := waitPoint(c); point != "" {
		r, err := awaitNudge(c.Context, a, rung, point, durationOf(c, "timeout"))
		result.Receipt, failed = &r, err
	}
	if c.Bool("json") {
		return errors.Join(p.out.JSON(result), failed)
	}
	if result.Receipt != nil {
		p.printReceipt(*result.Receipt)
		return failed
	}
	switch {
	case result.Poll != nil:
		p.out.Printf("nudged @%s: %s\n", a.Handle, reportText(*result.Poll, p))
	case c.Bool("no-poll"):
		p.out.Printf("nudged @%s: recorded for its next poll\n", a.Handle)
	default:
		p.out.Printf("nudged @%s: recorded; the poll that is at work sees it\n", a.Handle)
	}
	return nil
}

// nudged is what nudge --json prints; poll is null if no cycle was run, receipt
// if nothing was waited for.
type nudged struct {
	Agent   string         `json:"agent"`
	Poll    *cycle.Report  `json:"poll"`
	Receipt *cycle.Receipt `json:"receipt"`
}

func (p *program) nudgeOther(c *cli.Context, a *cycle.Agent, handle string) error {
	if !state.ValidHandle(handle) {
		return terminal.Usagef(handleHint, "%q is not a valid handle", handle)
	}
	if c.Bool("no-poll") {
		return terminal.Usagef("", "--no-poll is for your own agent: another one decides for itself when to poll")
	}
	point := waitPoint(c)
	if point != "" && point != cycle.PointQueued {
		hint := "--wait=queued returns when the mesh holds it"
		if slices.Contains(points, handle) {
			hint = "did you mean --wait=" + handle + "? without the = it is the handle of another agent"
		}
		return terminal.Usagef(hint, "what @%s does with a nudge is not known here", handle)
	}
	if err := a.RingOther(c.Context, handle, c.String("from"), c.String("reason")); err != nil {
		return refusedByMesh(err, point)
	}
	result := nudged{Agent: handle}
	if point != "" {
		now := p.loader.Now().UTC()
		result.Receipt = &cycle.Receipt{Queued: &now}
	}
	if c.Bool("json") {
		return p.out.JSON(result)
	}
	p.out.Printf("nudged @%s through the mesh\n", handle)
	return nil
}
