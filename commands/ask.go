package commands

import (
	"encoding/json"
	"math"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/act"
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
		Usage:     "ask another agent or the operator, and get the answer",
		ArgsUsage: "HANDLE TEXT | --operator TEXT",
		Description: `Sends a question through the mesh and prints its id. Then let the turn end: it
resumes, as the same turn, when every answer has arrived or timed out. If TEXT
is -, it is read from standard input. With --file a copy of the file is sent
along: up to 16 files of 16 MiB, 32 MiB in total.

--field names a result that the answer must have: NAME, NAME:TYPE or
NAME:TYPE=DESCRIPTION. A ? after the name makes it optional. TYPE is string,
number, integer, boolean, array or object. A FIELD can also be a JSON object.

--operator mails the question to the operator, in the thread of the turn's
message. Each --option is an answer that the mail offers: up to 9 of 60
characters. You get any other answer unchanged. The question has at most 4096
bytes. The deadline is 24h by default, which is also the limit.

Examples:
  agentstateloop ask dorlange3120 "which commit is live?" --deadline 10m \
    --field commit:string --field 'tests?:integer=how many passed'
  agentstateloop ask --operator "May I delete the old backups?" \
    --option yes --option no --deadline 6h`,
		Flags: []cli.Flag{
			switchFlag(&o.operator, "operator", "ask the operator, by mail"),
			repeatedFlag(&o.options, "option", "with --operator, offer this `ANSWER`; may be repeated"),
			repeatedFlag(&o.fields, "field", "ask for this result `FIELD`; may be repeated"),
			repeatedFlag(&o.files, "file", "send this `FILE` along; may be repeated"),
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
		return terminal.Usagef("to ask another agent for a result, use --field", "--option works only with --operator")
	}
	to, text, err := c.handleAndText()
	if err != nil {
		return err
	}
	turn, err := c.turn()
	if err != nil {
		return err
	}
	fields, err := requestedFields(o.fields)
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
		return terminal.Usagef("put the details into the text", "--%s does not work with --operator", flag)
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
		Usage:     "answer a question of the agent",
		ArgsUsage: "KEY TEXT",
		Description: `Answers a question that a turn has mailed you, like a reply to that mail. The
turn resumes immediately. KEY is the number or key of the message whose turn
asks, from inbox list, or the id of the question, from status --json, or a
prefix of that id. TEXT is one of the options, its number, or any other answer.
If TEXT is -, it is read from standard input.

Exits 4 if the question is not open: it does not exist, it was answered, its
deadline has passed, or its turn is over.

Examples:
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
	words, err := c.message(1)
	if err != nil {
		return err
	}
	a, err := c.load()
	if err != nil {
		return err
	}
	given, err := a.Answer(c.ctx, c.arg(0), userName(), words)
	if err != nil {
		return err
	}
	c.detach(a)
	if c.json {
		return c.out.JSON(answerOutput{ID: given.ID, Key: given.Key, Option: orNull(given.Option)})
	}
	text, note := act.Answered(given)
	c.out.Printf("%s\n", text)
	if note != "" {
		c.out.Note("note", "%s", note)
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
		Usage:     "report the result of work that a turn started",
		ArgsUsage: "ID [TEXT]",
		Description: `Answers a turn that waits for a tool with after_execution = "suspend", or after
submit --after suspend. ID is $AGENTSTATELOOP_CORRELATION_ID of the tool, or the
id that submit printed. The report is recorded first, so it cannot get lost;
then the turn resumes immediately. If TEXT is -, it is read from standard input.
A text over 60 KiB is truncated.

A repeated report changes nothing and exits 0. Exits 4 if no turn waits for the
ID, or not any more.

Examples:
  agentstateloop report wait.5f0c… --status failed "tests are red"
  ./deploy.sh >log 2>&1 && status=success || status=failed
  agentstateloop report "$ID" --status $status - <log`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "status", Value: string(state.Success), Usage: "`WORD`: success, failed, partial or canceled", Destination: &o.status},
			repeatedFlag(&o.fields, "field", "result, as `NAME=VALUE` or NAME:=JSON; may be repeated"),
			textFlag(&o.from, "from", "`NAME`: sender of the report, for the history"),
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
	fields, err := submittedFields(o.fields)
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
		text = "%s already has a report: nothing changed\n"
	}
	return c.print(reportOutput{ID: id, Taken: taken}, text, id)
}
