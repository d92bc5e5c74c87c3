package present

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle/view"
	"agentstateloop/internal/plain"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// maxObstacles limits the unusable files shown in a status.
const maxObstacles = 5

// labelCells is the column of a row's text.
const labelCells = 13

// StatusRow is a row of a status, on one line. A label in capitals marks trouble.
type StatusRow struct{ Label, Text string }

// IsTrouble reports whether the row shows trouble.
func (r StatusRow) IsTrouble() bool { return strings.ToUpper(r.Label) == r.Label }

// statusPage is a status in the form for a person.
type statusPage struct {
	Fitter
	now  time.Time
	rows []StatusRow
}

// row adds a row to a status.
type row func(label, format string, args ...any)

func (p *statusPage) row(label, format string, args ...any) {
	p.rows = append(p.rows, StatusRow{label, plain.Line(fmt.Sprintf(format, args...))})
}

// Status returns the status for a person, as wide as fitter allows: trouble with a label in
// capitals, the rest in few words. unproved is set if mail is trusted by its From alone.
func Status(fitter Fitter, s view.Status, mode string, unproved bool, now time.Time) string {
	head := fmt.Sprintf("@%s is %s", s.Agent, s.Phase)
	if s.PhaseSince != nil {
		head += fmt.Sprintf(" since %s (%s)", terminal.Clock(*s.PhaseSince, now), terminal.Short(max(0, now.Sub(*s.PhaseSince))))
	}
	var text strings.Builder
	text.WriteString(fitter.Fit(head, 2) + "\n")
	for _, r := range StatusRows(fitter, s, mode, unproved, now) {
		text.WriteString(fitter.Fit(fmt.Sprintf("  %-10s %s", r.Label, r.Text), labelCells) + "\n")
	}
	return text.String()
}

// StatusRows returns the rows of Status.
func StatusRows(fitter Fitter, s view.Status, mode string, unproved bool, now time.Time) []StatusRow {
	p := &statusPage{Fitter: fitter, now: now}
	row := p.row
	restoreRows(row, s, now)
	if s.Halted {
		row("HALTED", "no turns, no mail, until %s", terminal.ResumeCommands(s.HaltedBy))
	}
	if two := s.TwoMachines; two != nil {
		row("TWO MACHINES", "%s", TwoMachines(s.Agent, *two, now))
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
	switch at := s.Deadline; {
	case at == nil:
	case at.After(now):
		row("timer", "IDLE at %s unless you write", moment(*at, now))
	case s.Turn.Status != state.HeadIdle:
		row("timer", "IDLE after the turn, unless you write")
	default:
		row("timer", "IDLE at the next poll, unless you have written")
	}
	switch at := s.AckDue; {
	case at == nil:
	case at.After(now):
		row("ack", "waits until %s, and is not sent if the answer comes first", moment(*at, now))
	default:
		row("ack", "the next poll sends it, unless the answer comes first")
	}
	if n := s.LastNudge; n != nil {
		row("nudged", "at %s%s%s", terminal.Clock(n.At, now), around(" by ", plain.Line(n.From), ""), reasonSuffix(plain.Line(n.Reason)))
	}
	row("inbox", "%d waiting, %d deferred, %d quarantined", s.Inbox.Waiting, s.Inbox.Deferred, s.Inbox.Quarantined)
	if n := s.Inbox.Files; n > 0 {
		row("inbox", "%s of programs in nudges/, taken in order as the inbox has room", terminal.Count(n, "message"))
	}
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
	return p.rows
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

// TwoMachines says that another machine works as the agent, and what to do.
func TwoMachines(agent string, two view.TwoMachines, now time.Time) string {
	return fmt.Sprintf("@%s also works elsewhere (%s), last at %s: each message may be answered twice, or by only one of the two. %s",
		agent, plain.Line(two.Other()), terminal.Clock(two.At, now), state.TwoMachinesHint)
}

// Brief describes an agent apart from its phase. Trouble is in capitals.
func Brief(s view.Status, now time.Time) []string {
	var parts []string
	say := func(when bool, format string, args ...any) {
		if when {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	if s.Moved != nil {
		say(true, "MOVED to %s", plain.Line(s.Moved.To))
	}
	say(s.Halted, "HALTED")
	say(s.TwoMachines != nil, "TWO MACHINES")
	say(s.Inbox.Held > 0, "HELD %d", s.Inbox.Held)
	say(s.Tier == state.TierDead, "BROKE")
	say(s.Tier != state.TierDead && s.Tier != state.TierNormal, "%s", s.Tier)
	say(len(s.Credentials) > 0, "CREDENTIAL")
	say(s.Offline, "OFFLINE")
	say(s.Sending != nil, "OFFLINE for sending")
	timed := s.Schedule.Wanted != nil && strings.HasPrefix(*s.Schedule.Wanted, terminal.Program)
	say(s.Schedule.Error != nil && timed, "TIMER")
	say(s.Schedule.Error != nil && !timed, "CRONTAB")
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
