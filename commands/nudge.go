package commands

import (
	"strings"

	"github.com/urfave/cli/v2"

	"agentstateloop/cycle"
)

func (p *program) nudgeCommand() *cli.Command {
	return &cli.Command{
		Name:      "nudge",
		Usage:     "wake the agent now, or another one through the mesh",
		ArgsUsage: "[HANDLE]",
		Description: `Rings like a doorbell: an agent in IDLE goes to PREP and looks for messages
each minute. The nudge is recorded first and cannot get lost; then one cycle
runs at once, without the turns, which a poll in the background runs.

Example:
  make && agentstateloop nudge --reason "build is green"`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "from", Usage: "`NAME` of who nudges, for log and history"},
			&cli.StringFlag{Name: "reason", Usage: "why, as `TEXT` for log and history"},
			&cli.BoolFlag{Name: "no-poll", Usage: "only record it, for the next poll", DisableDefaultText: true},
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
		return p.nudgeOther(c, a, handle)
	}
	if err := a.Ring(c.String("from"), c.String("reason")); err != nil {
		return err
	}
	result := nudged{Agent: a.Handle}
	if !c.Bool("no-poll") {
		if r, ok := p.follow(c.Context, a); ok {
			r = reportJSON(r)
			result.Poll = &r
		}
	}
	if c.Bool("json") {
		return p.printJSON(result)
	}
	switch {
	case result.Poll != nil:
		p.printf("nudged @%s: %s\n", a.Handle, reportText(*result.Poll, p))
	case c.Bool("no-poll"):
		p.printf("nudged @%s: recorded for its next poll\n", a.Handle)
	default:
		p.printf("nudged @%s: recorded; the poll that is at work sees it\n", a.Handle)
	}
	return nil
}

// nudged is what nudge --json prints; poll is null if no cycle was run.
type nudged struct {
	Agent string        `json:"agent"`
	Poll  *cycle.Report `json:"poll"`
}

func (p *program) nudgeOther(c *cli.Context, a *cycle.Agent, handle string) error {
	if !validHandle(handle) {
		return usagef("a handle has a-z, 0-9 and -, at most 32, with or without the @", "%q is no handle", handle)
	}
	if c.Bool("no-poll") {
		return usagef("", "--no-poll is for your own agent: another one decides for itself when to poll")
	}
	if err := a.RingOther(c.Context, handle, c.String("from"), c.String("reason")); err != nil {
		return err
	}
	if c.Bool("json") {
		return p.printJSON(nudged{Agent: handle})
	}
	p.printf("nudged @%s through the mesh\n", handle)
	return nil
}
