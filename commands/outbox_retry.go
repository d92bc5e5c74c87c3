package commands

import (
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/internal/plain"
)

type outboxRetryCmd struct {
	agents agents
	out    *terminal.Output
	now    func() time.Time
}

func outboxRetryCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:      "retry",
		Usage:     "send one of them now, as it is",
		ArgsUsage: "NUMBER|ID",
		Description: `For what waits for its next try, and for what was given up: that is sent again
with the same bytes, so its receiver can recognize a copy. Exits 3 if it could
not be sent.

Example:
  agentstateloop outbox retry 5`,
		Action: outboxRetryCmd{p.agents(), &p.out, p.loader.Now}.run,
	}
}

// retryOutput is the JSON output of outbox retry.
type retryOutput struct {
	ID     string `json:"id"`
	Sent   bool   `json:"sent"`
	Status string `json:"status"` // "sent", or the status from outbox list
	Reason string `json:"reason"`
}

func (k outboxRetryCmd) run(c *cli.Context) error {
	if err := arguments(c, 1, 1); err != nil {
		return err
	}
	a, err := k.agents.load(c)
	if err != nil {
		return err
	}
	id := c.Args().First()
	r, sent, err := a.RetryEffect(c.Context, id)
	if err != nil {
		return withOutboxHint(err)
	}
	id = r.ID
	v := retryOutput{ID: id, Sent: sent, Status: r.Status, Reason: r.Reason}
	if sent {
		v.Status, v.Reason = "sent", ""
	}
	switch {
	case c.Bool("json"):
		if err := k.out.JSON(v); err != nil {
			return err
		}
	case sent:
		k.out.Printf("%s was sent\n", plain.Line(id))
	case r.Reason == "" || r.Status == cycle.RowSending || r.Status == cycle.RowHeld:
		k.out.Printf("%s %s\n", plain.Line(id), outboxStatus(r, k.now()))
	}
	if sent || r.Attempts == 0 && r.Status != cycle.RowUndelivered && r.Status != cycle.RowLost {
		return nil // another process has it, or it waits for GO
	}
	failed := &sourceError{failed: []string{fmt.Sprintf("%s: %s", plain.Line(id), outboxStatus(r, k.now()))}}
	if r.Status == cycle.RowUndelivered {
		return terminal.WithHint(failed, "it is still kept; "+name+" outbox drop "+plain.Line(id)+" removes it")
	}
	return failed
}
