package state

import (
	"iter"
	"time"
)

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
	at, ok := s.nextTimed(p, since)
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
	at, ok := s.nextTimed(p, looked)
	return ok && !at.After(now)
}

// nextTimed returns the earliest time after t at which a row makes a poll due. ok is false without
// such a row.
func (s State) nextTimed(p Policy, t time.Time) (next time.Time, ok bool) {
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
