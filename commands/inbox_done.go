package commands

import (
	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
)

type inboxDoneCmd struct {
	agents agents
	input  input
	out    *terminal.Output
}

func inboxDoneCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "done",
		Usage:     "end the turn of inbox next with the answer",
		ArgsUsage: "NUMBER|TURN EPOCH TEXT",
		Description: `NUMBER is that of the message, as inbox next printed it. A script gives TURN and
EPOCH instead: then an answer that comes too late ends no later turn. TEXT is
sent to the sender of the message; with - it is read from standard input.
--field is that of submit.

Example:
  agentstateloop inbox done 12 "deployed"
  agentstateloop inbox done t4c1f 7 "deployed" --field commit=4c1f`,
		Flags: []cli.Flag{
			repeatedFlag("field", "a result `NAME=VALUE` or NAME:=JSON; may be repeated"),
		},
		Action: inboxDoneCmd{p.agents(), p.input(), &p.out}.run,
	}
}

// doneOutput is the JSON output of inbox done.
type doneOutput struct {
	Agent  string `json:"agent"`
	TurnID string `json:"turn_id"`
	Epoch  uint64 `json:"turn_epoch"`
}

func (k inboxDoneCmd) run(c *cli.Context) error {
	if err := arguments(c, 2, 3); err != nil {
		return err
	}
	byNumber := c.NArg() == 2
	var in cycle.Inside
	var err error
	if !byNumber {
		if in, err = parseTurn(c.Args().Get(0), c.Args().Get(1)); err != nil {
			return err
		}
	}
	text, err := k.input.text(c.Args().Get(c.NArg() - 1))
	if err != nil {
		return err
	}
	a, err := k.agents.load(c)
	if err != nil {
		return err
	}
	if byNumber {
		if in, err = a.PulledTurn(c.Args().First()); err != nil {
			return terminal.WithHint(err, "`"+name+" inbox next` hands a message out, and prints its number")
		}
	}
	fields, err := givenFields(c)
	if err != nil {
		return err
	}
	if err := a.Done(c.Context, in, text, fields...); err != nil || !c.Bool("json") {
		return err
	}
	return k.out.JSON(doneOutput{Agent: a.Handle, TurnID: in.TurnID, Epoch: in.Epoch})
}
