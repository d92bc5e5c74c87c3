package commands

import (
	"encoding/json"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

type reportCmd struct {
	agents agents
	input  input
	out    *terminal.Output
}

func reportCommand(p *program) *cli.Command {
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
			&cli.StringFlag{Name: "status", Value: string(state.Success), Usage: "`WORD`: success, failed, partial or canceled"},
			repeatedFlag("field", "a result `NAME=VALUE` or NAME:=JSON; may be repeated"),
			&cli.StringFlag{Name: "from", Usage: "`NAME` of who reports, for the history"},
		},
		Action: reportCmd{p.agents(), p.input(), &p.out}.run,
	}
}

// reportOutput is the JSON output of report.
type reportOutput struct {
	ID    string `json:"id"`
	Taken bool   `json:"taken"` // false if a report came before
}

func (k reportCmd) run(c *cli.Context) error {
	if err := arguments(c, 1, 2); err != nil {
		return err
	}
	id := c.Args().First()
	r := cycle.LocalReport{From: c.String("from"), Status: state.Outcome(c.String("status"))}
	if r.From == "" {
		r.From = userName()
	}
	fields, err := givenFields(c)
	if err != nil {
		return err
	}
	for _, f := range fields {
		if f.Value == nil {
			f.Value, _ = json.Marshal(f.Text) // marshaling a string cannot fail
		}
		r.Fields = append(r.Fields, mesh.Field{Name: f.Name, Value: f.Value})
	}
	if r.Text, err = k.input.beginning(c.Args().Get(1)); err != nil {
		return err
	}
	if err := r.Check(); err != nil {
		return terminal.Usagef("see "+name+" report --help", "%v", err)
	}
	a, err := k.agents.load(c)
	if err != nil {
		return err
	}
	taken, err := a.TakeReport(c.Context, id, r)
	if err != nil {
		return err
	}
	if taken {
		detach(a, k.out)
	}
	if c.Bool("json") {
		return k.out.JSON(reportOutput{ID: id, Taken: taken})
	}
	if !taken {
		k.out.Printf("%s was reported on before: nothing is changed\n", id)
		return nil
	}
	k.out.Printf("reported on %s\n", id)
	return nil
}
