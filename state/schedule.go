package state

import (
	"cmp"
	"iter"
	"slices"
	"time"
)

// dueSlack is how early a poll may come and still count as the due one. cron fires
// within seconds of the minute, on either side of the computed time.
const dueSlack = 30 * time.Second

// nextFire returns the first minute after t at which a crontab line for this
// interval fires (docs/design.md, "The next poll"), in the local time that cron
// reads:
//
//   - Below an hour it fires at the minutes that the interval divides, and below a
//     day at the hours. An hour that a clock change skips does not fire, and one
//     that it repeats fires twice.
//   - The daily line fires at the first minute of each local day: 00:00, unless a
//     clock change skips midnight.
//
// It steps in real time, a minute each: a local time may not exist or exist twice,
// but every minute that passes has one.
func nextFire(interval time.Duration, t time.Time, loc *time.Location) time.Time {
	if loc == nil {
		loc = time.UTC
	}
	last := t.Truncate(time.Minute).In(loc)
	for {
		minute := last.Add(time.Minute)
		if fires(interval, last, minute) {
			return minute.UTC()
		}
		last = minute
	}
}

// fires reports whether the line of interval fires at minute. last is the minute
// before. An interval that no line can express fires each minute.
func fires(interval time.Duration, last, minute time.Time) bool {
	const day = 24 * time.Hour
	switch {
	case interval < time.Minute:
		return true
	case interval < time.Hour:
		return minute.Minute()%int(interval/time.Minute) == 0
	case interval < day:
		return minute.Minute() == 0 && minute.Hour()%int(interval/time.Hour) == 0
	default:
		return minute.Day() != last.Day()
	}
}

// DueHooks is the reason for a poll that is due only to call hooks.
const DueHooks = "hooks"

// DuePrompt is the reason for a poll that is due to make a prompt by the clock.
const DuePrompt = "prompt"

// Due returns the reason why a poll is due at now, for `poll --if-due`: its time has come, or the
// time of a deadline, a retry or a deferred row. It returns "" if the poll is not due.
func (s State) Due(p Policy, now time.Time) string {
	if s.NextDue.IsZero() || !now.Before(s.NextDue.Add(-dueSlack)) {
		return "next poll"
	}
	if s.NextDue.After(now.Add(s.Interval(p) + dueSlack)) {
		return "the clock was set back"
	}
	if deadline, ok := s.Deadline(p); ok && !now.Before(deadline) && !s.hasWork(p, now) {
		return "end of " + string(s.Phase)
	}
	return s.DueRow(p, now)
}

// DueRow returns the reason why a poll is due at now, apart from the line of the interval and the
// end of the phase, or "".
func (s State) DueRow(p Policy, now time.Time) string {
	if missed, ok := s.Turn.NextDeadline(); ok && !now.Before(missed) {
		return "reports are missing"
	}
	if len(s.DueEffects(now)) > 0 {
		return "outbox"
	}
	if s.AckDue(now) {
		return "ack"
	}
	if s.CanRun(p, now) || s.questionsBlockOperator(p, now) {
		return "inbox"
	}
	if len(s.DuePrompts(p, now)) > 0 {
		return DuePrompt
	}
	if slices.ContainsFunc(s.retriedMails(p), func(f FailingMail) bool { return !now.Before(f.Next) }) {
		return "withheld mail"
	}
	if _, ok := s.ToChallenge(p, now); ok {
		return "challenge"
	}
	if len(s.DueHookCalls(now)) > 0 {
		return DueHooks
	}
	return ""
}

// schedule sets the next time at which the crontab line of this interval fires.
func (m *machine) schedule() {
	m.NextDue = nextFire(m.Interval(m.policy), m.now, m.policy.Location)
}

// alarmLead is how long before its minute an alarm line must be in the table. cron reads the table
// at the start of the minute, and writing it may take a while.
const alarmLead = 5 * time.Second

// NextAlarm returns the minute at which the alarm line makes cron poll for a timed row, if cron
// would not poll before that anyway (docs/design.md, "The alarm line"). ok is false if no row needs
// an alarm. The minute is never before the row's time, and always after now. A row whose time has
// come keeps its alarm until the alarm has fired, because a running cycle may have looked just
// before.
func (s State) NextAlarm(p Policy, now time.Time) (minute time.Time, ok bool) {
	since, set := now.Truncate(time.Minute), s.Schedule.Alarm
	if set.After(now) {
		since = earlier(since, set.Add(-2*time.Minute)) // the alarm may have been set a minute later than its row
	}
	at, ok := s.NextTimed(p, since)
	if !ok {
		return time.Time{}, false
	}
	minute = at.Add(time.Minute - 1).Truncate(time.Minute)
	if soon := now.Add(alarmLead); minute.Before(soon) { // cron may have read the table already
		minute = soon.Add(time.Minute - 1).Truncate(time.Minute)
		if set.After(now) {
			minute = earlier(minute, set)
		}
	}
	if !minute.Before(nextFire(s.Interval(p), now, p.Location)) {
		return time.Time{}, false
	}
	return minute.UTC(), true
}

// CameDue reports whether the time of a row came between looked, when a cycle looked for due rows,
// and now. It ignores hooks, which are called apart from cycles.
func (s State) CameDue(p Policy, looked, now time.Time) bool {
	s.HookCalls = nil
	at, ok := s.NextTimed(p, looked)
	return ok && !at.After(now)
}

// NextTimed returns the earliest time after t at which a row makes a poll due. ok is false without
// such a row.
func (s State) NextTimed(p Policy, t time.Time) (next time.Time, ok bool) {
	for at := range s.timed(p) {
		if at.After(t) && (!ok || at.Before(next)) {
			next, ok = at, true
		}
	}
	return next, ok
}

// timed yields the times at which rows make a poll due, in no particular order, as far as the state
// shows now. At each of them Due names a row. It omits rows that could not act at their time, and
// rows that wait for a denied credential.
func (s State) timed(p Policy) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		if deadline, ok := s.Deadline(p); ok && !s.hasWork(p, deadline) && !yield(deadline) {
			return
		}
		if missed, ok := s.Turn.NextDeadline(); ok && !yield(missed) {
			return
		}
		if reopens := s.reopens(p, s.LastStep); s.CanRun(p, reopens) && !yield(reopens) {
			return
		}
		for _, msg := range s.Inbox {
			if s.runsAtItsTime(msg, p) && !yield(msg.NextRetryAt) {
				return
			}
		}
		if at, ok := s.nextAck(); ok && !yield(at) {
			return
		}
		for _, at := range s.promptTimes(p) {
			if !yield(at) {
				return
			}
		}
		for _, f := range s.retriedMails(p) {
			if !yield(f.Next) {
				return
			}
		}
		for _, e := range s.firstOfLanes() {
			if !yield(s.notBefore(e)) {
				return
			}
		}
		for _, e := range s.firstOfHooks() {
			if !yield(e.NotBefore) {
				return
			}
		}
		for _, at := range s.challengeTimes() {
			if _, ok := s.ToChallenge(p, at); ok && !yield(at) {
				return
			}
		}
	}
}

// runsAtItsTime reports whether a deferred message could have its turn when its deferral ends. A
// message that was given back because the agent's login is denied waits for the next cycle instead.
func (s State) runsAtItsTime(msg Message, p Policy) bool {
	waits := s.Turn.Status != HeadIdle && !(s.Turn.open() && msg.endsSuspension())
	if msg.Status != Deferred || msg.Damaged || waits || msg.TurnID != "" && s.Fails(p.Login) {
		return false
	}
	return s.mayRun(msg, p, msg.NextRetryAt)
}

// Schedule is the known state of the installed crontab lines (docs/protocol.md, "The crontab").
type Schedule struct {
	Installed string    `json:"installed,omitempty"`  // the line of the interval, as last seen in the table
	AlarmLine string    `json:"alarm_line,omitempty"` // the alarm line, as last seen; "" if the table does not have one
	Alarm     time.Time `json:"alarm,omitzero"`       // the minute of AlarmLine, if we set it
	Verified  time.Time `json:"verified,omitzero"`
	Error     string    `json:"error,omitempty"`
	Binary    string    `json:"binary,omitempty"`  // the binary that the line runs, pinned at the first install
	Removed   bool      `json:"removed,omitempty"` // by `uninstall`
}

// Scheduled reports that the installed crontab lines were compared with the wanted ones. They are
// now Line, which runs Binary, and AlarmLine, which fires at Alarm. Reason, if not empty, says why
// they could not be installed; the lines are then the last known ones.
type Scheduled struct {
	Line, AlarmLine string
	Alarm           time.Time
	Binary, Reason  string
}

func (e Scheduled) apply(m *machine) {
	if m.Schedule.Removed {
		return // `uninstall` came in between
	}
	if e.Line != m.Schedule.Installed || e.Reason != m.Schedule.Error {
		m.line(Line{Kind: LineSchedule, What: Word(e.Line), Reason: e.Reason})
	}
	if e.AlarmLine != m.Schedule.AlarmLine {
		m.line(Line{Kind: LineSchedule, What: cmp.Or(Word(e.AlarmLine), WordNoAlarmLine), Alarm: true})
	}
	m.Schedule.Installed, m.Schedule.AlarmLine, m.Schedule.Alarm = e.Line, e.AlarmLine, e.Alarm
	m.Schedule.Error = e.Reason
	m.Schedule.Verified = m.now
	if e.Reason == "" {
		m.Schedule.Binary = e.Binary
	}
}

// Redacted implements [Redactable].
func (e Scheduled) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

// Unscheduled reports that `uninstall` (Removed) has removed the lines. Cycles
// leave the table alone until `init` or `transition` sends it with Removed false.
type Unscheduled struct{ Removed bool }

func (e Unscheduled) apply(m *machine) {
	if m.Schedule.Removed == e.Removed {
		return
	}
	m.Schedule = Schedule{Removed: e.Removed}
	what := Word(WordRemoved)
	if !e.Removed {
		what = WordWantedAgain
	}
	m.line(Line{Kind: LineSchedule, What: what})
}

// applyScheduleLine records whether our lines are wanted. The next cycle reads the installed lines.
func (m *machine) applyScheduleLine(l Line) {
	switch l.What {
	case WordRemoved:
		m.Schedule = Schedule{Removed: true}
	case WordWantedAgain:
		m.Schedule = Schedule{}
	default:
		m.Schedule.Verified = time.Time{} // the lines were written after this state
	}
}
