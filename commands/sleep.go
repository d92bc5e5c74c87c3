package commands

import (
	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
)

type sleepCmd struct{ agents agents }

func sleepCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "sleep",
		Usage:     "for the agent: ask to be left alone for a while",
		ArgsUsage: "DURATION",
		Description: `Records that the agent wishes to rest, for a day at most. A message or a nudge
ends the rest.

Example:
  agentstateloop sleep 10m`,
		Action: sleepCmd{p.agents()}.run,
	}
}

func (s sleepCmd) run(c *cli.Context) error {
	if err := arguments(c, 1, 1); err != nil {
		return err
	}
	d, err := terminal.ParseDuration(c.Args().First())
	if err != nil {
		return terminal.Usagef("for example "+name+" sleep 10m", "%q %v", c.Args().First(), err)
	}
	turn, err := s.agents.turn(c)
	if err != nil {
		return err
	}
	return turn.sleep(c.Context, d)
}
