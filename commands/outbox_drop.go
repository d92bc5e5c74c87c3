package commands

import "github.com/urfave/cli/v2"

type outboxDropCmd struct{ agents agents }

func outboxDropCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "drop",
		Usage:     "remove one of them for good; it is not sent",
		ArgsUsage: "ID",
		Description: `What is being sent at this moment cannot be dropped.

Example:
  agentstateloop outbox drop reply.t4c1f --reason "told by telephone"`,
		Flags:  []cli.Flag{reasonFlag()},
		Action: outboxDropCmd{p.agents()}.run,
	}
}

func (k outboxDropCmd) run(c *cli.Context) error {
	if err := arguments(c, 1, 1); err != nil {
		return err
	}
	a, err := k.agents.load(c)
	if err != nil {
		return err
	}
	return withOutboxHint(a.DropEffect(c.Context, c.Args().First(), c.String("reason")))
}
