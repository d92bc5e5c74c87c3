package commands

import (
	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
)

type sendCmd struct {
	agents agents
	input  input
	out    *terminal.Output
}

func sendCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "send",
		Usage:     "send another agent a message",
		ArgsUsage: "HANDLE TEXT",
		Description: `Sends a message via the mesh and waits for no answer. With - as TEXT the message
is read from standard input. With --file a copy of the file goes along: up to 16
files of 16 MiB, 32 MiB together.

Example:
  agentstateloop send dorlange3120 "the deploy is done" --file deploy.log`,
		Flags:  []cli.Flag{repeatedFlag("file", "a `FILE` that goes along; may be repeated")},
		Action: sendCmd{p.agents(), p.input(), &p.out}.run,
	}
}

func (s sendCmd) run(c *cli.Context) error {
	to, text, err := s.input.handleAndText(c)
	if err != nil {
		return err
	}
	turn, err := s.agents.turn(c)
	if err != nil {
		return err
	}
	if err := turn.send(c.Context, to, text, wordsOf(c, "file")); err != nil || !c.Bool("json") {
		return err
	}
	return s.out.JSON(sendOutput{Agent: turn.handle(), To: to})
}

// sendOutput is the JSON output of send.
type sendOutput struct {
	Agent string `json:"agent"`
	To    string `json:"to"`
}
