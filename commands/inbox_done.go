package commands

import "github.com/urfave/cli/v2"

type inboxDoneCmd struct {
	agents agents
	input  input
}

func inboxDoneCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "done",
		Usage:     "end the turn of inbox next with the answer",
		ArgsUsage: "TURN EPOCH TEXT",
		Description: `TURN and EPOCH are those that inbox next printed. TEXT is sent to the sender of
the message; with - it is read from standard input. --field is that of submit.

Example:
  agentstateloop inbox done t4c1f 7 "deployed" --field commit=4c1f`,
		Flags: []cli.Flag{
			repeatedFlag("field", "a result `NAME=VALUE` or NAME:=JSON; may be repeated"),
		},
		Action: inboxDoneCmd{p.agents(), p.input()}.run,
	}
}

func (k inboxDoneCmd) run(c *cli.Context) error {
	if err := arguments(c, 3, 3); err != nil {
		return err
	}
	in, err := parseTurn(c.Args().Get(0), c.Args().Get(1))
	if err != nil {
		return err
	}
	text, err := k.input.text(c.Args().Get(2))
	if err != nil {
		return err
	}
	a, err := k.agents.load(c)
	if err != nil {
		return err
	}
	fields, err := givenFields(c)
	if err != nil {
		return err
	}
	return a.Done(c.Context, in, text, fields...)
}
