package present

import (
	"fmt"
	"strings"
	"time"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle/view"
	"agentstateloop/internal/plain"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// lastRows shows the operator's last mail, and the delivery of the last answer.
func lastRows(p *statusPage, s view.Status) {
	row, now := p.row, p.now
	if m := s.LastMail; m != nil {
		row("last mail", "%s from %s%s", moment(m.At, now), plain.Line(m.From), reasonSuffix(p.quoted(m.Subject)))
	}
	if a := s.LastAnswer; a != nil {
		row("answer", "%s: %s%s%s; %s", moment(a.At, now), a.Outcome, tookSuffix(a.Took), costOf(a.CostUSD), delivery(*a, now))
		if a.NotPermitted != nil {
			row("REFUSED", "the agent was denied permission: %s", plain.Line(*a.NotPermitted))
		}
	}
}

// moment returns a time, and its distance from now.
func moment(t, now time.Time) string {
	return fmt.Sprintf("%s (%s)", terminal.Clock(t, now), terminal.Distance(t, now))
}

// tookSuffix returns the time that an answer took.
func tookSuffix(seconds *float64) string {
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
		return "NOT SENT YET" + reasonSuffix(OneLine(a.Waits))
	case view.AnswerUndelivered:
		return fmt.Sprintf("NOT DELIVERED: see `%s outbox list`", terminal.Program)
	case view.AnswerReturned:
		return fmt.Sprintf("RETURNED: see `%s outbox list`", terminal.Program)
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
			label, text, at = "waits for", "a report from "+text, "since"
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
		p.row(label, "%s%s%s", text, reasonSuffix(p.quoted(q.Text)), optionsSuffix(q.Options))
	}
}

// nextTry returns the time of the next attempt, or "".
func nextTry(at *time.Time, now time.Time) string {
	if at == nil {
		return ""
	}
	return "; next try " + moment(*at, now)
}

// quoted returns the words of a person or an agent. It truncates a word that does not fit on a
// line.
func (p *statusPage) quoted(text *string) string { return p.FitWords(OneLine(text), labelCells) }

// promptRows shows the next time of each prompt of the clock, and the reason if it is held.
func promptRows(row row, s view.Status, now time.Time) {
	for _, prompt := range s.Prompts {
		switch {
		case prompt.Next == nil:
			row("prompt", "%s: never", prompt.Name)
		case prompt.Held != "":
			row("prompt", "%s: due since %s, held: %s", prompt.Name, terminal.Clock(*prompt.Next, now), prompt.Held)
		default:
			row("prompt", "%s: %s", prompt.Name, moment(*prompt.Next, now))
		}
		if prompt.Fails != "" {
			row("PROMPT", "%s has failed since %s%s", prompt.Name, terminal.Clock(*prompt.Since, now), reasonSuffix(plain.Line(prompt.Fails)))
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
	row("wakeup", "%s: %s%s%s", moment(next.At, p.now), next.Kind, reasonSuffix(p.quoted(&next.Title)), more)
	for _, w := range s.Self.Wakeups {
		if w.Held != "" {
			row("WAITS", "%s", w.Held)
			return
		}
	}
}

// Whereabouts describes an agent on the mesh: the hosts where it looks for work, its condition,
// and then its former hosts.
func Whereabouts(other mesh.Presence, now time.Time) string {
	var here, gone []string
	for _, h := range other.Hosts {
		switch {
		case other.Away || !h.Away:
			here = append(here, plain.Line(h.Host))
		default:
			gone = append(gone, fmt.Sprintf("%s last seen %s", plain.Line(h.Host), terminal.Clock(h.SeenAt, now)))
		}
	}
	parts := []string{"via the mesh"}
	if len(here) > 0 {
		parts[0] += " on " + strings.Join(here, " and ")
	}
	if other.Asleep && !other.Away {
		parts = append(parts, "asleep")
	}
	if other.Tier != "" && other.Tier != state.TierNormal && !other.Away {
		parts = append(parts, plain.Line(string(other.Tier)))
	}
	return strings.Join(append(parts, gone...), ", ")
}

// Brief describes an agent apart from its phase. Trouble is in capitals.
func Brief(s view.Status, now time.Time) []string {
	var parts []string
	say := func(when bool, format string, args ...any) {
		if when {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	say(s.Halted, "HALTED")
	say(s.Tier == state.TierDead, "BROKE")
	say(s.Tier != state.TierDead && s.Tier != state.TierNormal, "%s", s.Tier)
	say(len(s.Credentials) > 0, "CREDENTIAL")
	say(s.Offline, "OFFLINE")
	say(s.Sending != nil, "OFFLINE for sending")
	say(s.Schedule.Error != nil, "CRONTAB")
	say(s.Outbox.Undeliverable > 0, "LOST %d", s.Outbox.Undeliverable)
	say(s.NextDue == nil, "never polled")
	if s.NextDue != nil {
		overdue := s.NextDue.Before(now.Add(-time.Minute))
		say(overdue, "OVERDUE since %s", terminal.Clock(*s.NextDue, now))
		say(!overdue, "next poll %s", terminal.Clock(*s.NextDue, now))
	}
	say(s.Inbox.Waiting > 0, "%s", terminal.Count(s.Inbox.Waiting, "message")+" waiting")
	say(s.Turn.ID != nil, "turn %s", s.Turn.Status)
	return parts
}
