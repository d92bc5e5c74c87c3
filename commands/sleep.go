package commands

import (
	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
)

func sleepCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "sleep",
		Usage:     "rest for a while, and wake with a reason",
		ArgsUsage: "DURATION [TEXT]",
		Description: `Records that the agent wishes to rest, for a day at most. With TEXT it wakes
after that time: it has a turn of its own, which is told TEXT, what this turn
said at last, and what came meanwhile. A message ends the sleep, and its turn is
told TEXT too; what comes from somebody else, or a nudge, wakes the agent at
once. A new sleep replaces the one before it. With - as TEXT it is read from
standard input.

What must happen at its time, whatever comes meanwhile, is for remind.

Example:
  agentstateloop sleep 10m "see whether the build is done"`,
		Action: p.action(1, 2, sleep),
	}
}

func sleep(c *call) error {
	d, err := terminal.ParseDuration(c.arg(0))
	if err != nil {
		return terminal.Usagef("for example "+name+" sleep 10m", "%q %v", c.arg(0), err)
	}
	why := ""
	if len(c.args) == 2 {
		if why, err = c.message(1); err != nil {
			return err
		}
	}
	turn, err := c.turn()
	if err != nil {
		return err
	}
	if err := turn.sleep(c.ctx, d, why); err != nil {
		return err
	}
	return c.print(sleepOutput{Agent: turn.handle(), Seconds: d.Seconds()}, "")
}

// sleepOutput is the JSON output of sleep.
type sleepOutput struct {
	Agent   string  `json:"agent"`
	Seconds float64 `json:"seconds"`
}
