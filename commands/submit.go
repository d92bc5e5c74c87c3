package commands

import (
	"strings"

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
		Description: `Sets the deliverable of the turn it is called from, once: fields, a text, and a
file that goes with the reply. With - as TEXT it is read from standard input.
Without submit, what the agent prints is the deliverable.

Example:
  agentstateloop submit --field verdict=green --file report.pdf "all tests pass"`,
		Flags: []cli.Flag{
			repeatedFlag("field", "a result `NAME=VALUE`; may be repeated"),
			&cli.StringFlag{Name: "file", Usage: "a `FILE` that goes with the reply"},
		},
		Action: submitCmd{p.agents(), p.input()}.run,
	}
}

func (s submitCmd) run(c *cli.Context) error {
	if err := arguments(c, 0, 1); err != nil {
		return err
	}
	sub := cycle.Submission{File: c.String("file")}
	for _, f := range wordsOf(c, "field") {
		key, value, ok := strings.Cut(f, "=")
		if !ok || key == "" {
			return terminal.Usagef("for example --field verdict=green", "--field %q is not NAME=VALUE", f)
		}
		sub.Fields = append(sub.Fields, cycle.Field{Name: key, Text: value})
	}
	if c.NArg() == 0 && len(sub.Fields) == 0 && sub.File == "" {
		return terminal.Usagef("see "+name+" submit --help", "nothing to submit: give a text, --field or --file")
	}
	var err error
	if sub.Text, err = s.input.text(c.Args().First()); err != nil {
		return err
	}
	turn, err := s.agents.turn(c)
	if err != nil {
		return err
	}
	return turn.submit(c.Context, sub)
}
