package commands

import (
	"strings"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
)

type answerCmd struct {
	agents agents
	input  input
	out    *terminal.Output
}

func answerCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "answer",
		Usage:     "answer what the agent asks you",
		ArgsUsage: "KEY TEXT",
		Description: `Answers a question that a turn has mailed you, as a reply to that mail does: the
turn goes on with it at once. KEY is the number or the key of the message whose
turn asks, as ` + "`inbox list`" + ` shows it, or the id of the question, which
` + "`status --json`" + ` has, or the beginning of that id. TEXT is an option, its number,
or anything else. With - as TEXT it is read from standard input.

It exits 4 if nothing is asked there, or no longer: it was answered before, its
deadline has passed, or its turn is over.

Example:
  agentstateloop answer 12 yes
  agentstateloop answer question.2c98 "only those of May"`,
		Action: answerCmd{p.agents(), p.input(), &p.out}.run,
	}
}

// answerOutput is the JSON output of answer.
type answerOutput struct {
	ID     string  `json:"id"`  // of the question
	Key    string  `json:"key"` // of the message whose turn asked
	Option *string `json:"option"`
}

func (k answerCmd) run(c *cli.Context) error {
	if err := arguments(c, 2, 2); err != nil {
		return err
	}
	text, err := k.input.message(c, 1)
	if err != nil {
		return err
	}
	a, err := k.agents.load(c)
	if err != nil {
		return err
	}
	given, err := a.Answer(c.Context, c.Args().First(), userName(), text)
	if err != nil {
		return err
	}
	detach(a, k.out)
	if c.Bool("json") {
		out := answerOutput{ID: given.ID, Key: given.Key}
		if given.Option != "" {
			out.Option = &given.Option
		}
		return k.out.JSON(out)
	}
	if given.Option != "" {
		k.out.Printf("answered %s: %s\n", given.ID, terminal.Printable(given.Option))
		return nil
	}
	k.out.Printf("answered %s\n", given.ID)
	if len(given.Others) > 0 {
		k.out.Note("note", "this is none of its options (%s): the agent gets it as it is", terminal.Printable(strings.Join(given.Others, ", ")))
	}
	return nil
}
