package commands

import (
	"errors"

	"github.com/urfave/cli/v2"

	"agentstateloop/cycle/quarantine"
)

type inboxDropCmd struct{ agents agents }

func inboxDropCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "drop",
		Usage:     "remove a waiting message; it gets no turn",
		ArgsUsage: "NUMBER|KEY",
		Description: `With the key of a message in quarantine, removes it for good. With the key of a
mail that cannot be fetched, ends the tries; the mail stays in your mailbox.

Example:
  agentstateloop inbox drop 12 --reason "answered by hand"`,
		Flags:  []cli.Flag{reasonFlag()},
		Action: inboxDropCmd{p.agents()}.run,
	}
}

func (k inboxDropCmd) run(c *cli.Context) error {
	if err := arguments(c, 1, 1); err != nil {
		return err
	}
	a, err := k.agents.load(c)
	if err != nil {
		return err
	}
	which, reason := c.Args().First(), c.String("reason")
	if err := a.Expel(c.Context, which, reason); !errors.Is(err, quarantine.ErrNotQuarantined) {
		return err
	}
	s, err := a.Store.Read()
	if err != nil {
		return err
	}
	if _, failing := s.FailingMail(which); failing {
		return a.Drop(c.Context, which, reason)
	}
	m, err := findMessage(a, which)
	if err != nil {
		return err
	}
	return a.Drop(c.Context, m.Key, reason)
}
