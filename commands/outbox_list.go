package commands

import (
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/internal/plain"
)

type outboxListCmd struct {
	agents agents
	out    *terminal.Output
	now    func() time.Time
}

func outboxListCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "list",
		Usage: "list what waits to be sent, and what was given up",
		Description: `Lists in this order: what waits, with the last failure and the next try; what
was given up, because the server refused it for good or it waited five days; and
mail that the server took and that came back.

Example:
  agentstateloop outbox list --json`,
		Action: outboxListCmd{p.agents(), &p.out, p.loader.Now}.run,
	}
}

func (k outboxListCmd) run(c *cli.Context) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	a, err := k.agents.load(c)
	if err != nil {
		return err
	}
	rows, err := a.Outbox()
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return k.out.JSON(rows)
	}
	w := k.out.Table()
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\n", plain.Line(r.ID), plain.Line(r.To), outboxStatus(r, k.now()))
	}
	return w.Flush()
}
