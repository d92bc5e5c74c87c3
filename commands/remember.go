package commands

import "github.com/urfave/cli/v2"

type rememberCmd struct {
	agents agents
	input  input
}

func rememberCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "remember",
		Usage:     "for the agent: replace its working memory",
		ArgsUsage: "TEXT",
		Description: `Replaces the working memory with TEXT, which is part of every later context. It
holds 4 KiB; "" empties it. With - as TEXT it is read from standard input. The
history keeps what it held before. A reset sets it aside. A turn that another
agent has caused has, and replaces, a memory for that agent alone.

Example:
  agentstateloop remember "deploys go through dorlange3120; never on a Friday"`,
		Action: rememberCmd{p.agents(), p.input()}.run,
	}
}

func (r rememberCmd) run(c *cli.Context) error {
	if err := arguments(c, 1, 1); err != nil {
		return err
	}
	text, err := r.input.text(c.Args().First())
	if err != nil {
		return err
	}
	turn, err := r.agents.turn(c)
	if err != nil {
		return err
	}
	return turn.remember(c.Context, text)
}
