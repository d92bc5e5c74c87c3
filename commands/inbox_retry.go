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
not count against [budget] mails_an_hour. A wakeup has its turn now; that is a
word from you, so the agent may cause [turn] self_turns more.

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
	held, err := a.Retry(c.Context, m.Key)
	if err != nil {
		return err
	}
	if held != "" {
		k.out.Warn("%s still waits: %s", m.Key, held)
	}
	detach(a, k.out)
	return nil
}
