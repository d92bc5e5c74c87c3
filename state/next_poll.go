package state

import (
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
