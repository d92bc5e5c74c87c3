package commands

import (
	"encoding/json"
	"math"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// askOptions are the flags of ask.
type askOptions struct {
	operator               bool
	options, fields, files []string
	deadline               time.Duration
}

func askCommand(p *program) *cli.Command {
	var o askOptions
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
			switchFlag(&o.operator, "operator", "ask the operator, by mail"),
			repeatedFlag(&o.options, "option", "with --operator: an `ANSWER` to offer; may be repeated"),
			repeatedFlag(&o.fields, "field", "a result `FIELD` to ask for; may be repeated"),
			repeatedFlag(&o.files, "file", "a `FILE` that goes along; may be repeated"),
			durationFlag(&o.deadline, "deadline", "give up waiting after `DURATION`", state.DefaultPatience),
		},
		Action: p.action(0, math.MaxInt, o.run),
	}
}

func (o *askOptions) run(c *call) error {
	if o.operator {
		return o.askOperator(c)
	}
	if c.given(&o.options) != "" {
		return terminal.Usagef("to ask another agent for a result, use --field", "--option goes with --operator only")
	}
	to, text, err := c.handleAndText()
	if err != nil {
		return err
	}
	turn, err := c.turn()
	if err != nil {
		return err
	}
	fields, err := askedFields(o.fields)
	if err != nil {
		return err
	}
	id, err := turn.ask(c.ctx, cycle.Question{To: to, Text: text, Fields: fields, Patience: o.deadline}, o.files)
	if err != nil {
		return err
	}
	return c.printQuestion(id)
}

// askOperator asks the operator.
func (o *askOptions) askOperator(c *call) error {
	if flag := c.given(&o.fields, &o.files); flag != "" {
		return terminal.Usagef("say in the text what the operator needs to know", "--%s does not go with --operator", flag)
	}
	if err := c.arguments(1, 1); err != nil {
		return err
	}
	text, err := c.message(0)
	if err != nil {
		return err
	}
	q := cycle.OperatorQuestion{Text: text, Options: o.options}
	if c.given(&o.deadline) != "" {
		q.Patience = o.deadline
	}
	if err := q.Check(); err != nil {
		return terminal.Usagef("see "+name+" ask --help", "%v", err)
	}
	turn, err := c.turn()
	if err != nil {
		return err
	}
	id, err := turn.askOperator(c.ctx, q)
	if err != nil {
		return err
	}
	return c.printQuestion(id)
}

// printQuestion prints the id of a question.
func (c *call) printQuestion(id string) error {
	return c.print(struct {
		ID string `json:"tool_call_id"`
	}{id}, "%s\n", id)
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
		Action: p.action(2, 2, answer),
	}
}

// answerOutput is the JSON output of answer.
type answerOutput struct {
	ID     string  `json:"id"`  // of the question
	Key    string  `json:"key"` // of the message whose turn asked
	Option *string `json:"option"`
}

func answer(c *call) error {
	text, err := c.message(1)
	if err != nil {
		return err
	}
	a, err := c.load()
	if err != nil {
		return err
	}
	given, err := a.Answer(c.ctx, c.arg(0), userName(), text)
	if err != nil {
		return err
	}
	c.detach(a)
	if c.json {
		return c.out.JSON(answerOutput{ID: given.ID, Key: given.Key, Option: orNull(given.Option)})
	}
	if given.Option != "" {
		c.out.Printf("answered %s: %s\n", given.ID, terminal.Printable(given.Option))
		return nil
	}
	c.out.Printf("answered %s\n", given.ID)
	if len(given.Others) > 0 {
		c.out.Note("note", "this is none of its options (%s): the agent gets it as it is", terminal.Printable(strings.Join(given.Others, ", ")))
	}
	return nil
}

// reportOptions are the flags of report.
type reportOptions struct {
	fields       []string
	from, status string
}

func reportCommand(p *program) *cli.Command {
	var o reportOptions
	return &cli.Command{
		Name:      "report",
		Usage:     "report on what a turn has started",
		ArgsUsage: "ID [TEXT]",
		Description: `Answers what a turn waits for: a tool with after_execution = "suspend", or
submit --after suspend. ID is what the tool found in
$AGENTSTATELOOP_CORRELATION_ID, or what submit printed. The report is recorded
first and cannot get lost; then the turn goes on with it at once. With - as TEXT
it is read from standard input. A text above 60 KiB is cut.

The same ID once more changes nothing and exits 0. It exits 4 if nothing waits
for the ID, or no longer.

Example:
  agentstateloop report wait.5f0c… --status failed "tests are red"
  ./deploy.sh >log 2>&1 && status=success || status=failed
  agentstateloop report "$ID" --status $status - <log`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "status", Value: string(state.Success), Usage: "`WORD`: success, failed, partial or canceled", Destination: &o.status},
			repeatedFlag(&o.fields, "field", "a result `NAME=VALUE` or NAME:=JSON; may be repeated"),
			textFlag(&o.from, "from", "`NAME` of who reports, for the history"),
		},
		Action: p.action(1, 2, o.run),
	}
}

// reportOutput is the JSON output of report.
type reportOutput struct {
	ID    string `json:"id"`
	Taken bool   `json:"taken"` // false if a report came before
}

func (o *reportOptions) run(c *call) error {
	id := c.arg(0)
	r := cycle.LocalReport{From: o.from, Status: state.Outcome(o.status)}
	if r.From == "" {
		r.From = userName()
	}
	fields, err := givenFields(o.fields)
	if err != nil {
		return err
	}
	for _, f := range fields {
		if f.Value == nil {
			f.Value, _ = json.Marshal(f.Text) // marshaling a string cannot fail
		}
		r.Fields = append(r.Fields, mesh.Field{Name: f.Name, Value: f.Value})
	}
	if r.Text, err = c.beginning(c.arg(1)); err != nil {
		return err
	}
	if err := r.Check(); err != nil {
		return terminal.Usagef("see "+name+" report --help", "%v", err)
	}
	a, err := c.load()
	if err != nil {
		return err
	}
	taken, err := a.TakeReport(c.ctx, id, r)
	if err != nil {
		return err
	}
	if taken {
		c.detach(a)
	}
	text := "reported on %s\n"
	if !taken {
		text = "%s was reported on before: nothing is changed\n"
	}
	return c.print(reportOutput{ID: id, Taken: taken}, text, id)
}
