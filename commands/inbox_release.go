package commands

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle/quarantine"
)

type inboxReleaseCmd struct {
	agents agents
	out    *terminal.Output
}

func inboxReleaseCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "release",
		Usage:     "let a message out of quarantine, and run it",
		ArgsUsage: "NUMBER|KEY",
		Description: `For a message of inbox list --quarantined that you have read and want to let in.
A mail counts as your own that has just come, whatever the reason was. A message
of the mesh stays its sender's, and comes with the files that were kept. A poll
in the background runs it.

Example:
  agentstateloop inbox show q3
  agentstateloop inbox release q3`,
		Action: inboxReleaseCmd{p.agents(), &p.out}.run,
	}
}

func (k inboxReleaseCmd) run(c *cli.Context) error {
	if err := arguments(c, 1, 1); err != nil {
		return err
	}
	a, err := k.agents.load(c)
	if err != nil {
		return err
	}
	which := c.Args().First()
	key, err := a.View().Key(which)
	if err != nil {
		return err
	}
	already, err := a.Release(c.Context, key)
	switch {
	case errors.Is(err, quarantine.ErrNotQuarantined):
		return terminal.WithHint(fmt.Errorf("%s is %w", which, quarantine.ErrNotQuarantined),
			"see "+name+" inbox list --quarantined; inbox show NUMBER shows what became of a message")
	case err != nil:
		return err
	case already:
		k.out.Warn("%s has come in before, and is not taken again", which)
	}
	detach(a, k.out)
	if !c.Bool("json") {
		return nil
	}
	return k.out.JSON(struct {
		Key      string `json:"key"`
		Released bool   `json:"released"`
	}{key, !already})
}
