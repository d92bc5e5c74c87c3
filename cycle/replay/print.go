package replay

import (
	"fmt"
	"io"
	"time"

	"agentstateloop/cycle/timeline"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

// Printer prints entries as `demo` prints its story, day by day.
type Printer struct {
	lane timeline.Lane
	zone *time.Location
	day  string
}

// NewPrinter returns a printer to out, with the times of a zone.
func NewPrinter(out io.Writer, zone *time.Location) *Printer {
	return &Printer{lane: timeline.Lane{Timeline: &timeline.Timeline{Out: out}, Phase: state.IDLE}, zone: zone}
}

// maxText limits the characters of a text of others on a line.
const maxText = 100

// Print prints an entry.
func (p *Printer) Print(e Entry) error {
	if e.Kind == Polls {
		p.lane.Phase = e.Phase
		p.lane.Empty(e.Count)
		return nil
	}
	p.lane.ShowEmpty() // these polls belong to the earlier phase
	at := e.At.In(p.zone)
	if day := at.Format("Monday, 2 January 2006"); day != p.day {
		p.day = day
		p.lane.Heading(day)
	}
	p.lane.Now, p.lane.Phase = at, e.Phase
	direction := timeline.Between
	switch e.Kind {
	case MailIn:
		direction = timeline.In
	case MailOut, Answered:
		direction = timeline.Out
	}
	p.lane.Event(direction, "%s", p.words(e))
	return nil
}

// words describes an entry.
func (p *Printer) words(e Entry) string {
	subject := fmt.Sprintf("%q", plain.Shorten(e.Subject, maxText))
	switch e.Kind {
	case MailIn:
		return p.arrival(e, subject)
	case Copy:
		return "it is a copy of an earlier mail"
	case Waits:
		return fmt.Sprintf("it waits until %s: %s", e.Until.In(p.zone).Format("15:04"), plain.Line(e.Reason))
	case Control:
		return "it is a control: " + e.Text
	case Phase:
		return fmt.Sprintf("a poll moves the agent from %s to %s", e.Text, e.Phase)
	case Prompt:
		return "the prompt " + plain.Line(e.Subject) + " is due"
	case Turn:
		return "a turn begins: " + subject + others(e.Count)
	case Stopped:
		return "the turn is stopped: " + subject
	case Tier:
		return fmt.Sprintf("the tier is %s: %s", e.Text, plain.Line(e.Reason))
	case MailOut:
		return fmt.Sprintf("mail to the operator: %q", e.Text)
	}
	text := "answer: " + subject + others(e.Count)
	if e.Waited > 0 {
		text += fmt.Sprintf(", after %v", e.Waited.Round(time.Second))
	}
	if e.Cost > 0 {
		text += fmt.Sprintf(", %v", e.Cost)
	}
	return text
}

// arrival describes a mail that came.
func (p *Printer) arrival(e Entry, subject string) string {
	text := fmt.Sprintf("mail from %s: %s", plain.Shorten(plain.Line(e.From), maxText), subject)
	if e.Gate != "" {
		text += fmt.Sprintf(": set aside, %s: %s", e.Gate, plain.Shorten(plain.Line(e.Reason), maxText))
	}
	return text
}

// others names the other messages of a turn.
func others(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" and %d more", n)
}
