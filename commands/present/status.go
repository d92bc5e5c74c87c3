package present

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/view"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
)

// maxObstacles limits the unusable files shown in a status.
const maxObstacles = 5

// labelCells is the column of a row's text.
const labelCells = 13

// statusPage is a status in the form for a person.
type statusPage struct {
	Fitter
	now  time.Time
	text strings.Builder
}

// row writes a line of a status.
type row func(label, format string, args ...any)

func (p *statusPage) row(label, format string, args ...any) {
	line := fmt.Sprintf("  %-10s %s", label, plain.Line(fmt.Sprintf(format, args...)))
	p.text.WriteString(p.Fit(line, labelCells) + "\n")
}

// Status returns the status for a person, as wide as fitter allows: trouble with a label in
// capitals, the rest in few words. unproved is set if mail is trusted by its From alone.
func Status(fitter Fitter, s view.Status, mode string, unproved bool, now time.Time) string {
	p := &statusPage{Fitter: fitter, now: now}
	row := p.row
	head := fmt.Sprintf("@%s is %s", s.Agent, s.Phase)
	if s.PhaseSince != nil {
		head += fmt.Sprintf(" since %s (%s)", terminal.Clock(*s.PhaseSince, now), terminal.Short(max(0, now.Sub(*s.PhaseSince))))
	}
	p.text.WriteString(p.Fit(head, 2) + "\n")
	if s.Halted {
		row("HALTED", "no turns, no mail, until %s", terminal.ResumeCommands(s.HaltedBy))
	}
	if s.Cooldown != nil {
		row("COOL-DOWN", "too many turns failed in a row: no turn until %s", moment(*s.Cooldown, now))
	}
	for _, o := range s.Outages {
		row(outageLabel(o.Kind), "%s; next try %s", plain.Line(state.Outage{Kind: o.Kind, Reason: o.Reason}.Sentence(o.Backend)), moment(o.Until, now))
	}
	if s.Spend.Remedy != nil && s.Spend.Limit != nil {
		row("BROKE", "%s is used up: no turns %s", *s.Spend.Limit, *s.Spend.Remedy)
	}
	for _, credential := range slices.Sorted(maps.Keys(s.Credentials)) {
		c := s.Credentials[credential]
		row("CREDENTIAL", "%s failed in %s in a row since %s%s%s", credential, terminal.Count(c.Failures, "poll"), terminal.Clock(c.Since, now), informedSuffix(c), around(" (", c.Reason, ")"))
	}
	if s.Offline {
		row("OFFLINE", "mail %s: `%s doctor` shows why", lastRead(s.LastLook, now), terminal.Program)
	}
	if s.Sending != nil {
		row("OFFLINE", "%s", sendingText(*s.Sending, now))
	}
	for _, hook := range slices.Sorted(maps.Keys(s.Hooks)) {
		if h := s.Hooks[hook]; h.Since != nil {
			row("HOOK", "%s has failed since %s, %s waiting, %s%s", hook, terminal.Clock(*h.Since, now), terminal.Count(h.Waiting, "event"), lostEvents(h), reasonSuffix(plain.Line(h.Reason)))
		}
	}
	if s.Outbox.Undeliverable > 0 {
		row("LOST", "%s could not be delivered; see `%s outbox list`", terminal.Count(s.Outbox.Undeliverable, "message"), terminal.Program)
	}
	if n := len(s.Lost); n > 0 {
		last := s.Lost[n-1]
		row("LOST", "%s returned undelivered, the last at %s: %s to %s%s", terminal.Count(n, "mail"), terminal.Clock(last.At, now), last.ID, plain.Line(last.To), reasonSuffix(plain.Line(last.Reason)))
	}
	if n := s.Inbox.RefusedSigned; n > 0 {
		row("REFUSED", "%s signed by you: answer YES to the question about each, or see `%s inbox list --quarantined`", terminal.Count(n, "mail"), terminal.Program)
	}
	for _, obstacle := range s.Obstacles[:min(len(s.Obstacles), maxObstacles)] {
		row("FILE", "%s", obstacle)
	}
	if more := len(s.Obstacles) - maxObstacles; more > 0 {
		row("FILE", "%s more: `%s doctor` shows them", terminal.Count(more, "file"), terminal.Program)
	}
	lastRows(p, s)
	questionRows(p, s.Questions)
	pollRows(row, s, mode, now)
	if s.Deadline != nil {
		row("timer", "IDLE at %s unless the operator writes", moment(*s.Deadline, now))
	}
	if s.AckDue != nil {
		row("ack", "waits until %s, and is not sent if the answer comes first", moment(*s.AckDue, now))
	}
	if n := s.LastNudge; n != nil {
		row("nudged", "at %s%s%s", terminal.Clock(n.At, now), around(" by ", plain.Line(n.From), ""), reasonSuffix(plain.Line(n.Reason)))
	}
	row("inbox", "%d waiting, %d deferred, %d quarantined", s.Inbox.Waiting, s.Inbox.Deferred, s.Inbox.Quarantined)
	if w := s.Inbox.Withheld; w != nil {
		row("WITHHELD", "%s that the server does not deliver; next try %s; see `%s inbox list`", terminal.Count(w.Count, "mail"), moment(w.Next, now), terminal.Program)
	}
	if u := s.Inbox.Uncalled; u != nil {
		row("UNCALLED", "%s of yours reached the agent's address without naming an agent, the last at %s: write @%s in the subject", terminal.Count(u.Count, "mail"), terminal.Clock(u.Last, now), s.Agent)
	}
	for _, d := range s.Inbox.Deferrals {
		row("deferred", "%s until %s%s%s", terminal.Count(d.Count, "message"), terminal.Clock(d.Next, now), untilLast(d, now), reasonSuffix(d.Reason))
	}
	for _, h := range s.Outbox.Holds {
		row("outbox", "%d waiting: %s%s", h.Count, h.Text, nextTry(h.NextTry, now))
	}
	turnRows(row, s, now)
	wakeupRows(p, s)
	promptRows(row, s, now)
	spendRows(row, s)
	if s.Mesh != nil {
		row("mesh", "%s", *s.Mesh)
	}
	if unproved {
		row("TRUST", `require = "from" checks nothing: anyone who writes your address into From can run your agent`)
	}
	return p.text.String()
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

// around returns a text between two others, or "" without the text.
func around(before, text, after string) string {
	if text == "" {
		return ""
	}
	return before + text + after
}

// reasonSuffix returns a colon and a reason, or "".
func reasonSuffix(reason string) string { return around(": ", reason, "") }

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
		row("OVERDUE", "the poll of %s did not run: %s", moment(*s.NextDue, now), terminal.OverdueHint(mode == cycle.ModeNone))
	default:
		row("next poll", "%s", moment(*s.NextDue, now))
	}
	if at := s.Schedule.Alarm; at != nil && s.Schedule.AlarmReason != nil {
		row("alarm", "%s: %s", moment(*at, now), *s.Schedule.AlarmReason)
	}
	if s.Schedule.Error != nil {
		row("CRONTAB", "cannot be set: %s", *s.Schedule.Error)
	}
	installed := "no line"
	if s.Schedule.Installed != nil {
		installed = *s.Schedule.Installed
	}
	switch {
	case mode == cycle.ModeNone:
		row("schedule", "mode none: another program polls")
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
	if t.Lifecycle != nil && t.Reason != nil {
		text += ", " + *t.Lifecycle + ": " + *t.Reason
	} else if t.State != nil {
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
