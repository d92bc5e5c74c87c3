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
		Usage:     "ask another agent or the operator, and wake for the answer",
		ArgsUsage: "HANDLE TEXT | --operator TEXT",
		Description: `Sends a question via the mesh and prints its id. Then let the turn end: it goes
on, as the same turn, when every answer has come or is late. With - as TEXT the
question is read from standard input. With --file a copy of the file goes along:
up to 16 files of 16 MiB, 32 MiB together.

--field names a result that the answer is to have: NAME, NAME:TYPE or
NAME:TYPE=DESCRIPTION. A ? after the name means that it may be missing. TYPE is
string, number, integer, boolean, array or object. An object of JSON works too.

--operator mails the question to the operator, in the thread of the message that
this turn is about. Each --option is an answer that the mail offers: up to 9 of
60 characters. Another answer is given to you as it is. The text has at most
4096 bytes. The deadline is 24h by default, and at most.

Example:
  agentstateloop ask dorlange3120 "which commit is live?" --deadline 10m \
    --field commit:string --field 'tests?:integer=how many passed'
  agentstateloop ask --operator "May I delete the old backups?" \
    --option yes --option no --deadline 6h`,
		Flags: []cli.Flag{
			switchFlag("operator", "ask the operator, by mail"),
			repeatedFlag("option", "with --operator: an `ANSWER` to offer; may be repeated"),
			repeatedFlag("field", "a result `FIELD` to ask for; may be repeated"),
			repeatedFlag("file", "a `FILE` that goes along; may be repeated"),
			durationFlag("deadline", "give up waiting after `DURATION`", state.DefaultPatience),
		},
		Action: askCmd{p.agents(), p.input(), &p.out}.run,
	}
}

func (a askCmd) run(c *cli.Context) error {
	if c.Bool("operator") {
		return a.operator(c)
	}
	if c.IsSet("option") {
		return terminal.Usagef("to ask another agent for a result, use --field", "--option goes with --operator only")
	}
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
	return a.asked(c, id)
}

// operator asks the operator.
func (a askCmd) operator(c *cli.Context) error {
	for _, flag := range []string{"field", "file"} {
		if c.IsSet(flag) {
			return terminal.Usagef("say in the text what the operator needs to know", "--%s does not go with --operator", flag)
		}
	}
	if err := arguments(c, 1, 1); err != nil {
		return err
	}
	text, err := a.input.message(c, 0)
	if err != nil {
		return err
	}
	q := cycle.OperatorQuestion{Text: text, Options: wordsOf(c, "option")}
	if c.IsSet("deadline") {
		q.Patience = durationOf(c, "deadline")
	}
	if err := q.Check(); err != nil {
		return terminal.Usagef("see "+name+" ask --help", "%v", err)
	}
	turn, err := a.agents.turn(c)
	if err != nil {
		return err
	}
	id, err := turn.askOperator(c.Context, q)
	if err != nil {
		return err
	}
	return a.asked(c, id)
}

// asked prints the id of a question.
func (a askCmd) asked(c *cli.Context, id string) error {
	if c.Bool("json") {
		return a.out.JSON(struct {
			ID string `json:"tool_call_id"`
		}{id})
	}
	a.out.Printf("%s\n", id)
	return nil
}
