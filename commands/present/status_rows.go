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

// restoreRows adds where the agent was moved, and what a restore has left to decide.
func restoreRows(row row, s view.Status, now time.Time) {
	if m := s.Moved; m != nil {
		row("MOVED", "TO %s on %s%s: nothing works here until `%s move --cancel`", plain.Line(m.To), terminal.Clock(m.At, now), around("; its archive is ", OneLine(m.Archive), ""), terminal.Program)
	}
	if r := s.Restored; r != nil && r.Reading {
		row("RESTORED", "at %s from %s: the next poll compares the mailbox", terminal.Clock(r.At, now), plain.Line(r.From))
	}
	if n := s.Inbox.Held; n > 0 {
		row("HELD", "%s of a restored backup may have run already: `%s inbox list`, then retry or drop each", terminal.Count(n, "message"), terminal.Program)
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

// lastRead returns the time of the last reading of mail, in words.
func lastRead(look *time.Time, now time.Time) string {
	if look == nil {
		return "could not be read yet"
	}
	return fmt.Sprintf("was last read at %s", moment(*look, now))
}

// untilLast returns the time until the last of several deferred messages waits.
func untilLast(d view.StatusDeferral, now time.Time) string {
	if d.Last.Equal(d.Next) {
		return ""
	}
	return ", the last until " + terminal.Clock(d.Last, now)
}

// lostEvents returns the number of events that a hook has lost, and the command that shows them.
func lostEvents(h view.StatusHook) string {
	if h.LostAfter == nil {
		return "none lost"
	}
	return fmt.Sprintf("%d lost (see `%s events --since %d`)", h.Lost, terminal.Program, *h.LostAfter)
}

// sendingText describes an outage of sending mail: its beginning and the next attempt.
func sendingText(s view.StatusSending, now time.Time) string {
	return fmt.Sprintf("no mail can be sent since %s (%s waiting): %s; next try %s; see `%s outbox list`",
		terminal.Clock(s.Since, now), terminal.Count(s.Waiting, "mail"), s.Reason, moment(s.NextTry, now), terminal.Program)
}

// outageLabel returns the label of the row about a failing backend.
func outageLabel(kind state.OutageKind) string {
	switch kind {
	case state.UsageLimit:
		return "LIMIT"
	case state.Overload:
		return "OVERLOAD"
	case state.LoginRefused:
		return "LOGIN"
	}
	return "BLOCKED"
}

// informedSuffix returns the agents or persons that know about a failing credential.
func informedSuffix(c view.StatusCredential) string {
	switch {
	case c.OperatorTold:
		return "; you were informed"
	case c.KeymasterTold:
		return "; the keymaster was informed"
	}
	return "; NOBODY IS INFORMED YET"
}

// spendRows shows the cost of turns, if it is known or limited.
func spendRows(row row, s view.Status) {
	if s.Spend.MonthUSD > 0 || s.Spend.LeftUSD != nil {
		row("spend", "%v today, %v this month", dollars(s.Spend.DayUSD), dollars(s.Spend.MonthUSD))
	}
	if s.Spend.LeftUSD != nil && s.Spend.Limit != nil {
		row("tier", "%s: %v left of %s", s.Tier, dollars(*s.Spend.LeftUSD), *s.Spend.Limit)
	}
	if len(s.Spend.Savings) > 0 {
		row("saving", "%s", strings.Join(s.Spend.Savings, ", "))
	}
	for _, backend := range s.Spend.Uncounted {
		row("UNCOUNTED", "%s reports neither a cost nor tokens: the budget cannot count its turns", state.BackendName(backend))
	}
	for _, model := range s.Spend.Unpriced {
		row("PRICE", "the price of %q is unknown: it counts as the most expensive model; set [prices.%q]", model, model)
	}
}

// dollars returns usd as an amount to print.
func dollars(usd float64) state.Micros {
	amount, _ := state.Dollars(usd)
	return amount
}

// pollRows shows the time of the next poll, and its trigger.
func pollRows(row row, s view.Status, mode string, now time.Time) {
	switch {
	case s.NextDue == nil:
		row("next poll", "never polled yet: run `%s poll` once", terminal.Program)
	case s.NextDue.Before(now.Add(-time.Minute)):
		row("OVERDUE", "the poll due at %s did not run: %s", moment(*s.NextDue, now), terminal.OverdueHint(cycle.Starter(mode)))
	case !s.NextDue.After(now):
		row("next poll", "due now")
	default:
		row("next poll", "%s", moment(*s.NextDue, now))
	}
	if at := s.Schedule.Alarm; at != nil && s.Schedule.AlarmReason != nil {
		row("alarm", "%s: %s", moment(*at, now), *s.Schedule.AlarmReason)
	}
	timed := cycle.HasTimer(mode)
	switch {
	case s.Schedule.Error != nil && timed:
		row("TIMER", "does not poll: %s: run `%s init`", *s.Schedule.Error, terminal.Program)
	case s.Schedule.Error != nil:
		row("CRONTAB", "cannot be set: %s", *s.Schedule.Error)
	}
	installed := "no line"
	if s.Schedule.Installed != nil {
		installed = *s.Schedule.Installed
	}
	switch {
	case mode == cycle.ModeNone:
		row("schedule", "mode none: another program polls")
	case timed && s.Schedule.Wanted == nil:
		row("schedule", "uninstalled: `%s init` installs the timer again", terminal.Program)
	case timed:
		row("schedule", "%s, each minute", *s.Schedule.Wanted)
	case mode != cycle.ModeCrontab:
		row("schedule", "mode %s: you maintain the crontab", mode)
	case s.Schedule.Wanted == nil:
		row("schedule", "uninstalled: `%s init` installs the line again", terminal.Program)
	case *s.Schedule.Wanted == installed && s.Schedule.AlarmInstalled != nil:
		row("schedule", "%s, and once %s", installed, *s.Schedule.AlarmInstalled)
	case *s.Schedule.Wanted == installed:
		row("schedule", "%s", installed)
	default:
		row("schedule", "%s is installed, but should be %s", installed, *s.Schedule.Wanted)
	}
}

// turnRows shows the agent's turn, or that it sleeps.
func turnRows(row row, s view.Status, now time.Time) {
	t := s.Turn
	switch {
	case t.Status != state.HeadIdle || t.ID != nil:
		row("turn", "%s", turnText(t, now))
	case s.Asleep:
		row("turn", "asleep")
	}
	if t.LastOutput != nil {
		text := "last output " + terminal.Distance(*t.LastOutput, now)
		if t.KillAt != nil && t.KillFor != nil {
			text += fmt.Sprintf(", will be ended %s because it %s", terminal.Distance(*t.KillAt, now), *t.KillFor)
		}
		if t.CostUSD != nil && *t.CostUSD > 0 {
			text += fmt.Sprintf(", $%.2f so far", *t.CostUSD)
		}
		row("agent", "%s", text)
	}
	if s.SleepUntil != nil {
		row("rest", "wants to rest until %s", moment(*s.SleepUntil, now))
	}
}

func turnText(t view.StatusTurn, now time.Time) string {
	text := string(t.Status)
	if t.Status == state.HeadIdle {
		text = "answered, and its agent is still running"
	}
	if t.Since != nil {
		text += " for " + terminal.Short(max(0, now.Sub(*t.Since)))
	}
	if t.ID != nil && t.Epoch != nil {
		text += fmt.Sprintf(", %s epoch %d", *t.ID, *t.Epoch)
	}
	switch {
	case t.Status == state.HeadSuspended: // the process has ended, as it should
	case t.Lifecycle != nil && t.Reason != nil:
		text += ", " + *t.Lifecycle + ": " + *t.Reason
	case t.State != nil:
		text += ", " + *t.State
	}
	if t.Tool != nil {
		text += " " + *t.Tool
	}
	if t.WaitingToolCount != nil && *t.WaitingToolCount > 0 {
		waits := terminal.Count(*t.WaitingToolCount, "tool")
		if t.Status == state.HeadSuspended {
			waits = terminal.Count(*t.WaitingToolCount, "answer")
		}
		text += ", waits for " + waits
	}
	if t.ResumeBy != nil {
		text += " until " + terminal.Clock(*t.ResumeBy, now)
	}
	return text
}
