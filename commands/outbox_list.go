package commands

import (
	"cmp"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

type outboxListCmd struct {
	agents agents
	out    *terminal.Output
	now    func() time.Time
}

func outboxListCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "list",
		Usage: "list what waits to be sent, and what was given up",
		Description: `Lists in this order: what waits, with the last failure and the next try; what
was given up, because the server refused it for good or it waited five days; and
mail that the server took and that came back. Each row has a number, which every
outbox command takes, the time, to whom it goes, what it is, and how it stands.

Example:
  agentstateloop outbox list
  agentstateloop outbox list --json`,
		Action: outboxListCmd{p.agents(), &p.out, p.loader.Now}.run,
	}
}

func (k outboxListCmd) run(c *cli.Context) error {
	if err := arguments(c, 0, 0); err != nil {
		return err
	}
	a, err := k.agents.load(c)
	if err != nil {
		return err
	}
	rows, err := a.Outbox()
	if err != nil {
		return err
	}
	for i := range rows {
		rows[i].State = outboxStatus(rows[i], k.now())
	}
	if c.Bool("json") {
		return k.out.JSON(rows)
	}
	var cells [][]string
	for _, r := range rows {
		at := "-"
		if when := cmp.Or(r.Created, r.Ended); when != nil {
			at = terminal.Clock(*when, k.now())
		}
		cells = append(cells, []string{outboxNumber(r), at, plain.Line(r.To), outboxSubject(r), r.State})
	}
	return k.out.Grid([]terminal.Column{{}, {}, {Least: 12}, {Least: 16}, {}}, cells)
}

// outboxNumber returns the number of a row, or its id if it has no number.
func outboxNumber(r cycle.OutboxRow) string {
	if r.Number == nil {
		return plain.Line(r.ID)
	}
	return *r.Number
}

// effectNames are the names of the kinds of effects for a person.
var effectNames = sync.OnceValue(func() map[state.EffectKind]string {
	return map[state.EffectKind]string{
		state.Ack: "awake", state.Quiet: "going quiet", state.Notice: "notice", state.Working: "still working",
		state.Reply: "answer", state.Answer: "answer to a control", state.Question: "question", state.OperatorQuestion: "question to you", state.Post: "message",
		state.Alarm: "alarm", state.Relay: "request to mail you", state.Relayed: "for another agent",
		state.Challenge: "did you write this?", state.HookCall: "event",
	}
})

// outboxSubject returns the kind and the subject of a row.
func outboxSubject(r cycle.OutboxRow) string {
	kind := r.Kind
	if kind == "" { // of a returned mail, only the id is known
		before, _, _ := strings.Cut(r.ID, ".")
		kind = state.EffectKind(before)
	}
	what := cmp.Or(effectNames()[kind], plain.Line(string(kind)))
	if r.Subject == "" {
		return what
	}
	return what + ": " + plain.Line(r.Subject)
}
