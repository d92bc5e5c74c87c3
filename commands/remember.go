package commands

import (
	"github.com/urfave/cli/v2"
)

func (p *program) rememberCommand() *cli.Command {
	return &cli.Command{
		Name:      "remember",
		Usage:     "for the agent: replace its working memory",
		ArgsUsage: "TEXT",
		Description: `Replaces the working memory by TEXT (from standard input for -), which stands
in every later context. It holds 4 KiB; "" empties it. What it held before is
kept beside it, and in the history. A reset sets it aside.

Example:
  agentstateloop remember "deploys go through dorlange3120; never on a Friday"`,
		Action: p.remember,
	}
}

func (p *program) remember(c *cli.Context) error {
	if err := arguments(c, 1, 1); err != nil {
		return err
	}
	text, err := p.message(c.Args().First())
	if err != nil {
		return err
	}
	a, in, err := p.inside(c)
	if err != nil {
		return err
	}
	return a.Remember(c.Context, in, text)
}
