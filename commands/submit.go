package commands

import (
	"math"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// submitOptions are the flags of submit.
type submitOptions struct {
	fields, files []string
	after         string
	deadline      time.Duration
}

func submitCommand(p *program) *cli.Command {
	var o submitOptions
	return &cli.Command{
		Name:      "submit",
		Usage:     "set the answer of this turn",
		ArgsUsage: "[TEXT]",
		Description: `Sets the deliverable of the calling turn, once: fields, a text, and files for
the reply. If TEXT is -, it is read from standard input. Without submit, the
output of the agent is the deliverable.

A field's VALUE has the type that the message asks for: JSON for a number, an
integer, a boolean, an array or an object, otherwise the text unchanged.
NAME:=JSON sets any value. A missing required field is an error.

With --after terminate the turn ends immediately, and its agent is terminated.
With --after suspend, TEXT is an interim answer: submit prints an id, the agent
ends, and the turn resumes when a report for that id arrives (see report), or
when --deadline has passed.

Example:
  agentstateloop submit --field verdict=green --field tests:=412 \
    --file report.pdf "all tests pass"`,
		Flags: []cli.Flag{
			repeatedFlag(&o.fields, "field", "result, as `NAME=VALUE` or NAME:=JSON; may be repeated"),
			repeatedFlag(&o.files, "file", "send this `FILE` with the reply; may be repeated"),
			&cli.StringFlag{Name: "after", Value: mesh.Continue, Usage: "`WORD`: continue, suspend or terminate", Destination: &o.after},
			durationFlag(&o.deadline, "deadline", "with suspend: give up after `DURATION`", state.DefaultDeadline),
		},
		Action: p.action(0, 1, o.run),
	}
}

func (o *submitOptions) run(c *call) error {
	fields, err := submittedFields(o.fields)
	if err != nil {
		return err
	}
	sub := cycle.Submission{Fields: fields, Files: o.files}
	switch {
	case !slices.Contains([]string{mesh.Continue, mesh.Suspend, mesh.Terminate}, o.after):
		return terminal.Usagef("use continue, suspend or terminate", "unknown --after %q", o.after)
	case o.after == mesh.Suspend && (len(sub.Fields) > 0 || len(sub.Files) > 0):
		return terminal.Usagef("submit them after the report", "--field and --file do not work with --after suspend, which gives no final answer")
	case o.after != mesh.Suspend && c.given(&o.deadline) != "":
		return terminal.Usagef("it limits the wait of --after suspend", "--deadline works only with --after suspend")
	case o.after == mesh.Suspend:
		return o.suspend(c)
	}
	sub.Finish = o.after == mesh.Terminate
	if len(c.args) == 0 && len(sub.Fields) == 0 && len(sub.Files) == 0 {
		return terminal.Usagef("see "+name+" submit --help", "nothing to submit: give a text, --field or --file")
	}
	if sub.Text, err = c.text(c.arg(0)); err != nil {
		return err
	}
	turn, err := c.turn()
	if err != nil {
		return err
	}
	if err := turn.submit(c.ctx, sub); err != nil {
		return err
	}
	return c.print(submitOutput{Agent: turn.handle(), After: o.after}, "")
}

// submitOutput is the JSON output of submit.
type submitOutput struct {
	Agent string  `json:"agent"`
	After string  `json:"after"`
	ID    *string `json:"correlation_id"` // of --after suspend: the id for the report
}

// suspend makes the turn wait for a report, and prints its id.
func (o *submitOptions) suspend(c *call) error {
	text, err := c.text(c.arg(0))
	if err != nil {
		return err
	}
	if o.deadline <= 0 || o.deadline > state.MaxPatience {
		return terminal.Usagef("for example --deadline 1h", "--deadline must be more than 0 and at most %v", state.MaxPatience)
	}
	turn, err := c.turn()
	if err != nil {
		return err
	}
	id, err := turn.suspend(c.ctx, text, o.deadline)
	if err != nil {
		return err
	}
	return c.print(submitOutput{Agent: turn.handle(), After: mesh.Suspend, ID: &id}, "%s\n", id)
}

// sendOptions are the flags of send.
type sendOptions struct{ files []string }

func sendCommand(p *program) *cli.Command {
	var o sendOptions
	return &cli.Command{
		Name:      "send",
		Usage:     "send another agent a message",
		ArgsUsage: "HANDLE TEXT",
		Description: `Sends a message through the mesh and does not wait for an answer. If TEXT is -,
it is read from standard input. With --file a copy of the file is sent along: up
to 16 files of 16 MiB, 32 MiB in total.

Example:
  agentstateloop send dorlange3120 "the deploy is done" --file deploy.log`,
		Flags:  []cli.Flag{repeatedFlag(&o.files, "file", "send this `FILE` along; may be repeated")},
		Action: p.action(0, math.MaxInt, o.run),
	}
}

func (o *sendOptions) run(c *call) error {
	to, text, err := c.handleAndText()
	if err != nil {
		return err
	}
	turn, err := c.turn()
	if err != nil {
		return err
	}
	if err := turn.send(c.ctx, to, text, o.files); err != nil {
		return err
	}
	return c.print(sendOutput{Agent: turn.handle(), To: to}, "")
}

// sendOutput is the JSON output of send.
type sendOutput struct {
	Agent string `json:"agent"`
	To    string `json:"to"`
}
