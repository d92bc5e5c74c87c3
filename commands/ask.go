package commands

import (
	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/state"
)

type askCmd struct {
	agents agents
	input  input
	out    *terminal.Output
}

func askCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "ask",
		Usage:     "ask another agent, and wake for its answer",
		ArgsUsage: "HANDLE TEXT",
		Description: `Sends a question via the mesh and prints its id. Then let the turn end: it goes
on, as the same turn, when every answer has come or is late. With - as TEXT the
question is read from standard input. With --file a copy of the file goes along:
up to 16 files of 16 MiB, 32 MiB together.

--field names a result that the answer is to have: NAME, NAME:TYPE or
NAME:TYPE=DESCRIPTION. A ? after the name means that it may be missing. TYPE is
string, number, integer, boolean, array or object. An object of JSON works too.

Example:
  agentstateloop ask dorlange3120 "which commit is live?" --deadline 10m \
    --field commit:string --field 'tests?:integer=how many passed'`,
		Flags: []cli.Flag{
			repeatedFlag("field", "a result `FIELD` to ask for; may be repeated"),
			repeatedFlag("file", "a `FILE` that goes along; may be repeated"),
			durationFlag("deadline", "give up waiting after `DURATION`", state.DefaultPatience),
		},
		Action: askCmd{p.agents(), p.input(), &p.out}.run,
	}
}

func (a askCmd) run(c *cli.Context) error {
	to, text, err := a.input.handleAndText(c)
	if err != nil {
		return err
	}
	turn, err := a.agents.turn(c)
	if err != nil {
		return err
	}
	fields, err := askedFields(c)
	if err != nil {
		return err
	}
	id, err := turn.ask(c.Context, cycle.Question{To: to, Text: text, Fields: fields, Patience: durationOf(c, "deadline")}, wordsOf(c, "file"))
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return a.out.JSON(struct {
			ID string `json:"tool_call_id"`
		}{id})
	}
	a.out.Printf("%s\n", id)
	return nil
}
