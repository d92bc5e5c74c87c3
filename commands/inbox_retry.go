package commands

import (
	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
)

type inboxRetryCmd struct {
	agents agents
	out    *terminal.Output
}

func inboxRetryCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "retry",
		Usage:     "queue a message again",
		ArgsUsage: "NUMBER|KEY",
		Description: `For a message that waits for a later time or was given up. Such a message does
not count against [budget] mails_an_hour.

Example:
  agentstateloop inbox retry 12`,
		Action: inboxRetryCmd{p.agents(), &p.out}.run,
	}
}

func (k inboxRetryCmd) run(c *cli.Context) error {
	if err := arguments(c, 1, 1); err != nil {
		return err
	}
	a, err := k.agents.load(c)
	if err != nil {
		return err
	}
	m, err := findMessage(a, c.Args().First())
	if err != nil {
		return err
	}
	if err := a.Retry(c.Context, m.Key); err != nil {
		return err
	}
	detach(a, k.out)
	return nil
}
