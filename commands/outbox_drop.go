package commands

import (
	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
)

type outboxDropCmd struct {
	agents agents
	out    *terminal.Output
}

func outboxDropCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "drop",
		Usage:     "remove one of them for good; it is not sent",
		ArgsUsage: "NUMBER|ID",
		Description: `What is being sent at this moment cannot be dropped.

Example:
  agentstateloop outbox drop 5 --reason "told by telephone"`,
		Flags:  []cli.Flag{reasonFlag()},
		Action: outboxDropCmd{p.agents(), &p.out}.run,
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
	r, err := a.OutboxRow(c.Args().First())
	if err != nil {
		return withOutboxHint(err)
	}
	if err := a.DropEffect(c.Context, r.ID, c.String("reason")); err != nil {
		return withOutboxHint(err)
	}
	if !c.Bool("json") {
		return nil
	}
	return k.out.JSON(outboxDropOutput{ID: r.ID, Dropped: true})
}

// outboxDropOutput is the JSON output of outbox drop.
type outboxDropOutput struct {
	ID      string `json:"id"`
	Dropped bool   `json:"dropped"`
}
