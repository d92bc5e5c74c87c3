package commands

import (
	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
)

type rememberCmd struct {
	agents agents
	input  input
	out    *terminal.Output
}

func rememberCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "remember",
		Usage:     "replace its working memory",
		ArgsUsage: "TEXT",
		Description: `Replaces the working memory with TEXT, which is part of every later context. It
holds 4 KiB; "" empties it. With - as TEXT it is read from standard input. The
history keeps what it held before. A reset sets it aside. A turn that another
agent has caused has, and replaces, a memory for that agent alone.

Example:
  agentstateloop remember "deploys go through dorlange3120; never on a Friday"`,
		Action: rememberCmd{p.agents(), p.input(), &p.out}.run,
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
	if err := turn.remember(c.Context, text); err != nil || !c.Bool("json") {
		return err
	}
	return r.out.JSON(rememberOutput{Agent: turn.handle(), Bytes: len(text)})
}

// rememberOutput is the JSON output of remember.
type rememberOutput struct {
	Agent string `json:"agent"`
	Bytes int    `json:"bytes"` // of the new memory
}
