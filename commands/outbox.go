package commands

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/internal/plain"
)

func outboxCommand(p *program) *cli.Command {
	return &cli.Command{
		Name:  "outbox",
		Usage: "look at what is not sent yet, or could not be",
		Subcommands: []*cli.Command{
			outboxListCommand(p),
			outboxShowCommand(p),
			outboxRetryCommand(p),
			outboxDropCommand(p),
		},
	}
}

// withOutboxHint adds a hint to an error about a row.
func withOutboxHint(err error) error {
	switch {
	case errors.Is(err, cycle.ErrNoEffect):
		return terminal.WithHint(err, "see "+name+" outbox list; what was sent is in "+name+" history")
	case errors.Is(err, cycle.ErrBeingSent):
		return terminal.WithHint(err, "try again in a moment: a poll is at work, and "+name+" outbox list shows what became of it")
	}
	return err
}

// outboxStatus returns the status of a row in words.
func outboxStatus(r cycle.OutboxRow, now time.Time) string {
	reason := plain.Line(r.Reason)
	switch r.Status {
	case cycle.RowUndelivered:
		return "given up" + since(r.Ended, now) + ": " + cmp.Or(reason, "it waited too long")
	case cycle.RowLost:
		return "was not sent, and is not kept: " + reason
	case cycle.RowReturned:
		return "came back" + since(r.Ended, now) + ": " + cmp.Or(reason, "no reason given")
	case cycle.RowHeld:
		return "held by HALT"
	case cycle.RowSending:
		return "is being sent"
	}
	text := "waits"
	if r.Attempts > 0 {
		text += ", tried " + terminal.Count(r.Attempts, "time")
	}
	if r.NextTry != nil {
		text += ", next try " + terminal.Clock(*r.NextTry, now)
	}
	if reason != "" {
		text += ": " + reason
	}
	return text
}

// since returns the time of an event, formatted to follow a word.
func since(at *time.Time, now time.Time) string {
	if at == nil {
		return ""
	}
	return fmt.Sprintf(" %s", terminal.Clock(*at, now))
}
