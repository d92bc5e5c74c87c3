package commands

import (
	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
)

type submitCmd struct {
	agents agents
	input  input
}

func submitCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "submit",
		Usage:     "for the agent: set the answer of this turn",
		ArgsUsage: "[TEXT]",
		Description: `Sets the deliverable of the turn it is called from, once: fields, a text, and
files that go with the reply. With - as TEXT it is read from standard input.
Without submit, what the agent prints is the deliverable.

A field's VALUE has the type that the message asks for: JSON for a number, an
integer, a boolean, an array or an object, else the text as it is. NAME:=JSON
gives any value. What the message requires and is missing is an error.

Example:
  agentstateloop submit --field verdict=green --field tests:=412 \
    --file report.pdf "all tests pass"`,
		Flags: []cli.Flag{
			repeatedFlag("field", "a result `NAME=VALUE` or NAME:=JSON; may be repeated"),
			repeatedFlag("file", "a `FILE` that goes with the reply; may be repeated"),
		},
		Action: submitCmd{p.agents(), p.input()}.run,
	}
}

func (s submitCmd) run(c *cli.Context) error {
	if err := arguments(c, 0, 1); err != nil {
		return err
	}
	fields, err := givenFields(c)
	if err != nil {
		return err
	}
	sub := cycle.Submission{Fields: fields, Files: wordsOf(c, "file")}
	if c.NArg() == 0 && len(sub.Fields) == 0 && len(sub.Files) == 0 {
		return terminal.Usagef("see "+name+" submit --help", "nothing to submit: give a text, --field or --file")
	}
	if sub.Text, err = s.input.text(c.Args().First()); err != nil {
		return err
	}
	turn, err := s.agents.turn(c)
	if err != nil {
		return err
	}
	return turn.submit(c.Context, sub)
}
