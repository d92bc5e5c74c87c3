package commands

import (
	"fmt"
	"time"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle/view"
	"agentstateloop/internal/plain"
)

// lastRows shows the operator's last mail, and the delivery of the last answer.
func lastRows(p *statusPage, s view.Status) {
	row, now := p.row, p.now
	if m := s.LastMail; m != nil {
		row("last mail", "%s from %s%s", moment(m.At, now), plain.Line(m.From), because(p.said(m.Subject)))
	}
	if a := s.LastAnswer; a != nil {
		row("answer", "%s: %s%s%s; %s", moment(a.At, now), a.Outcome, took(a.Took), costOf(a.CostUSD), delivery(*a, now))
		if a.NotPermitted != nil {
			row("REFUSED", "the agent was not permitted: %s", plain.Line(*a.NotPermitted))
		}
	}
}

// moment returns a time, and its distance from now.
func moment(t, now time.Time) string {
	return fmt.Sprintf("%s (%s)", terminal.Clock(t, now), terminal.Distance(t, now))
}

// took returns the time that an answer took.
func took(seconds *float64) string {
	if seconds == nil {
		return ""
	}
	d := time.Duration(*seconds * float64(time.Second))
	return " after " + terminal.Short(max(time.Second, d.Round(time.Second)))
}

// costOf returns the cost of an answer, or "" if it is zero or unknown.
func costOf(usd float64) string {
	if usd <= 0 {
		return ""
	}
	return fmt.Sprintf(", %v", dollars(usd))
}

// delivery describes the delivery of an answer.
func delivery(a view.StatusAnswer, now time.Time) string {
	switch a.Delivery {
	case view.AnswerPrinted:
		return "at the terminal"
	case view.AnswerSent:
		if a.Sent != nil {
			return "sent at " + terminal.Clock(*a.Sent, now)
		}
	case view.AnswerWaiting:
		return "NOT SENT YET" + because(reason(a.Waits))
	case view.AnswerUndelivered:
		return fmt.Sprintf("NOT DELIVERED: see `%s outbox list`", name)
	case view.AnswerReturned:
		return fmt.Sprintf("CAME BACK: see `%s outbox list`", name)
	}
	return a.Delivery
}

// questionRows shows the agent's open questions, their recipients, and their timeouts.
func questionRows(p *statusPage, open []view.StatusQuestion) {
	now := p.now
	for _, q := range open {
		label, text, at := "asked", plain.Line(q.To), "at"
		switch q.Kind {
		case view.QuestionAsk:
			text = "@" + text
		case view.QuestionOperator:
			text = "you, " + text
		case view.QuestionReport:
			label, text, at = "waits for", "a report of "+text, "since"
		case view.QuestionChallenge:
			text = "you, " + text
		}
		if q.Asked != nil {
			text += " " + at + " " + terminal.Clock(*q.Asked, now)
		}
		if !q.Sent && q.Kind != view.QuestionReport {
			text += " (NOT SENT YET)"
		}
		if q.Until != nil {
			text += ", until " + moment(*q.Until, now)
		}
		p.row(label, "%s%s%s", text, because(p.said(q.Text)), offered(q.Options))
	}
}

// nextTry returns the time of the next attempt, or "".
func nextTry(at *time.Time, now time.Time) string {
	if at == nil {
		return ""
	}
	return "; next try " + moment(*at, now)
}

// reason returns the text behind a pointer, or "" if it is nil.
func reason(text *string) string {
	if text == nil {
		return ""
	}
	return plain.Line(*text)
}

// said returns the words of a person or an agent. It truncates a word that does not fit on a
// line.
func (p *statusPage) said(text *string) string { return p.out.FitWords(reason(text), labelCells) }

// promptRows shows the next time of each prompt of the clock, and the reason if it is held.
func promptRows(row row, s view.Status, now time.Time) {
	for _, prompt := range s.Prompts {
		switch {
		case prompt.Next == nil:
			row("prompt", "%s: never", prompt.Name)
		case prompt.Held != "":
			row("prompt", "%s: due since %s; it waits: %s", prompt.Name, terminal.Clock(*prompt.Next, now), prompt.Held)
		default:
			row("prompt", "%s: %s", prompt.Name, moment(*prompt.Next, now))
		}
		if prompt.Fails != "" {
			row("PROMPT", "%s fails since %s%s", prompt.Name, terminal.Clock(*prompt.Since, now), because(plain.Line(prompt.Fails)))
		}
	}
}

// wakeupRows shows the next wakeup of the agent itself, and the reason if it is held.
func wakeupRows(p *statusPage, s view.Status) {
	row := p.row
	next := s.NextWakeup
	if next == nil {
		return
	}
	more := ""
	if n := len(s.Self.Wakeups) - 1; n > 0 {
		more = fmt.Sprintf("; %d more", n)
	}
	row("wakeup", "%s: %s%s%s", moment(next.At, p.now), next.Kind, because(p.said(&next.Title)), more)
	for _, w := range s.Self.Wakeups {
		if w.Held != "" {
			row("WAITS", "%s", w.Held)
			return
		}
	}
}
