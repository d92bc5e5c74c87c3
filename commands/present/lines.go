package present

import (
	"fmt"
	"strings"
	"time"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/view"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

// eventsWidth is the maximum length of an event's line, in characters.
const eventsWidth = 80

// Line returns a history line for a person who reads every one.
func Line(l state.Line, now time.Time) string {
	return terminal.Clock(l.At, now) + "  " + lineWords(l, now)
}

// lineWords returns the record of a history line in words.
func lineWords(l state.Line, now time.Time) string {
	parts := []string{fmt.Sprintf("%-10s", l.Kind)}
	add := func(format string, text string) {
		if text != "" {
			parts = append(parts, fmt.Sprintf(format, plain.Line(text)))
		}
	}
	if l.New != "" {
		add("%s", string(l.Old)+" → "+string(l.New))
	}
	add("%s", string(l.What))
	add("%s", string(l.Outcome))
	add("from %s", l.From)
	add("to %s", l.To)
	if l.Effect != nil {
		add("to %s", l.Effect.To)
	}
	if l.Kind == state.LineEdge {
		add("on %s", l.Request)
		add("by %s", l.Response)
	}
	if l.Ack != nil {
		add("until %s", terminal.Clock(l.Ack.Until, now))
	}
	add("gate %s", l.Gate)
	if l.Spending != nil {
		add("%s", l.Spending.Cost.String())
		add("for %s", l.Spending.Model)
	}
	if l.Amount != 0 {
		add("%s", l.Amount.String())
	}
	add("%s", l.Reason)
	add("%s", l.Text)
	for _, id := range []string{l.ID, l.TurnID, l.Key} {
		if id != "" {
			add("(%s)", id)
			break
		}
	}
	return strings.Join(parts, " ")
}

// Event returns an event as one line for a person.
func Event(e view.LiveEvent, now time.Time) string {
	var parts []string
	add := func(format, text string) {
		if text != "" {
			parts = append(parts, fmt.Sprintf(format, plain.Line(text)))
		}
	}
	switch d := e.Data.(type) {
	case state.Details:
		if d.New != "" {
			add("%s", string(d.Old)+" → "+string(d.New))
		}
		add("from %s", d.From)
		add("to %s", d.To)
		add("%s", d.Credential)
		add("gate %s", d.Gate)
		add("%s", d.Reason)
		for _, id := range []string{d.TurnID, d.Effect, d.Key} {
			if id != "" {
				add("(%s)", id)
				break
			}
		}
	case view.StepDetails:
		add("%s", d.Tool)
		if d.Bytes > 0 {
			add("%s", terminal.Count(d.Bytes, "byte"))
		}
		if d.WaitingTools > 1 {
			add("%s", terminal.Count(d.WaitingTools, "tool")+" at once")
		}
		if d.Fails {
			add("%s", "failed")
		}
		add("%s", d.Reason)
	}
	line := []rune(fmt.Sprintf("%s  %-18s %s", terminal.Clock(e.At, now), e.Event, strings.Join(parts, " ")))
	if len(line) > eventsWidth {
		line = append(line[:eventsWidth-1], '…')
	}
	return strings.TrimRight(string(line), " ")
}

// Report returns the report of a poll in one line.
func Report(r cycle.Report, now time.Time) string {
	parts := []string{string(r.After)}
	if r.Before != r.After {
		parts[0] = fmt.Sprintf("%s → %s", r.Before, r.After)
	}
	for _, n := range []struct {
		number     int
		noun, does string
	}{
		{r.Nudges, "nudge", ""}, {r.Arrived, "message", " received"}, {r.Rejected, "message", " rejected"},
		{r.Turns, "turn", " run"}, {r.Sent, "mail", " sent"}, {r.Posted, "message", " sent to other agents"},
	} {
		if n.number > 0 {
			parts = append(parts, terminal.Count(n.number, n.noun)+n.does)
		}
	}
	if !r.NextDue.IsZero() {
		parts = append(parts, "next poll "+terminal.Clock(r.NextDue, now))
	}
	return strings.Join(parts, ", ")
}

// Receipt returns the progress of a nudge or a message in one line.
func Receipt(r view.Receipt, now time.Time) string {
	var parts []string
	for _, at := range []struct {
		what string
		when *time.Time
	}{{"queued", r.Queued}, {"polled", r.Polled}, {"turned", r.Turned}, {"delivered", r.Delivered}} {
		if at.when != nil {
			parts = append(parts, at.what+" "+terminal.Clock(*at.when, now))
		}
	}
	return strings.Join(parts, ", ")
}
