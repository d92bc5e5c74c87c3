package commands

import (
	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
)

func sleepCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "sleep",
		Usage:     "rest for a while, and wake with a text",
		ArgsUsage: "DURATION [TEXT]",
		Description: `Records that the agent wants to rest, for at most a day. With TEXT it wakes
after that time and runs a turn of its own. That turn gets TEXT, the last words
of this turn, and the news since then. A message of the same conversation ends
the sleep early, and its turn also gets TEXT. Any other message, or a nudge,
wakes the agent immediately. A new sleep replaces the old one. If TEXT is -, it
is read from standard input.

For a wakeup at a fixed time, whatever happens before, use remind.

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
