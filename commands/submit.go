package commands

import (
	"slices"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

type submitCmd struct {
	agents agents
	input  input
	out    *terminal.Output
}

func submitCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "submit",
		Usage:     "set the answer of this turn",
		ArgsUsage: "[TEXT]",
		Description: `Sets the deliverable of the turn it is called from, once: fields, a text, and
files that go with the reply. With - as TEXT it is read from standard input.
Without submit, what the agent prints is the deliverable.

A field's VALUE has the type that the message asks for: JSON for a number, an
integer, a boolean, an array or an object, else the text as it is. NAME:=JSON
gives any value. What the message requires and is missing is an error.

With --after terminate the turn ends at once, and its agent is ended. With
--after suspend TEXT is only what is said so far: it prints an id, the agent
ends, and the turn goes on when something reports by that id (see report), or
when --deadline has passed.

Example:
  agentstateloop submit --field verdict=green --field tests:=412 \
    --file report.pdf "all tests pass"`,
		Flags: []cli.Flag{
			repeatedFlag("field", "a result `NAME=VALUE` or NAME:=JSON; may be repeated"),
			repeatedFlag("file", "a `FILE` that goes with the reply; may be repeated"),
			&cli.StringFlag{Name: "after", Value: mesh.Continue, Usage: "`WORD`: continue, suspend or terminate"},
			durationFlag("deadline", "of a suspension: give up after `DURATION`", state.DefaultDeadline),
		},
		Action: submitCmd{p.agents(), p.input(), &p.out}.run,
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
	after := c.String("after")
	switch {
	case !slices.Contains([]string{mesh.Continue, mesh.Suspend, mesh.Terminate}, after):
		return terminal.Usagef("it is continue, suspend or terminate", "--after %q is not known", after)
	case after == mesh.Suspend && (len(sub.Fields) > 0 || len(sub.Files) > 0):
		return terminal.Usagef("submit them when the report is in", "--field and --file are of the final answer, and --after suspend gives none")
	case after != mesh.Suspend && c.IsSet("deadline"):
		return terminal.Usagef("it is how long --after suspend waits", "--deadline has no effect")
	case after == mesh.Suspend:
		return s.suspend(c)
	}
	sub.Finish = after == mesh.Terminate
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
	if err := turn.submit(c.Context, sub); err != nil || !c.Bool("json") {
		return err
	}
	return s.out.JSON(submitOutput{Agent: turn.handle(), After: after})
}

// submitOutput is the JSON output of submit.
type submitOutput struct {
	Agent string  `json:"agent"`
	After string  `json:"after"`
	ID    *string `json:"correlation_id"` // of --after suspend: the id for the report
}

// suspend makes the turn wait for a report, and prints its id.
func (s submitCmd) suspend(c *cli.Context) error {
	text, err := s.input.text(c.Args().First())
	if err != nil {
		return err
	}
	patience := durationOf(c, "deadline")
	if patience <= 0 || patience > state.MaxPatience {
		return terminal.Usagef("for example --deadline 1h", "--deadline must be more than 0 and at most %v", state.MaxPatience)
	}
	turn, err := s.agents.turn(c)
	if err != nil {
		return err
	}
	id, err := turn.suspend(c.Context, text, patience)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return s.out.JSON(submitOutput{Agent: turn.handle(), After: mesh.Suspend, ID: &id})
	}
	s.out.Printf("%s\n", id)
	return nil
}
