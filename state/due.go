package state

import "time"

// dueSlack is how early a poll may come and still count as the due one: cron
// fires within seconds of the minute, on either side of what was computed.
const dueSlack = 30 * time.Second

// nextFire is the first minute after t, in the local time of cron, at which a
// line for this interval fires: minutes divisible by it below an hour, hours
// divisible by it above (DESIGN 9). It walks minute by minute, so that the
// nights when clocks change need no rule of their own.
func nextFire(interval time.Duration, t time.Time, loc *time.Location) time.Time {
	if loc == nil {
		loc = time.UTC
	}
	minutes := int(interval / time.Minute)
	if minutes < 1 {
		minutes = 1
	}
	next := t.Truncate(time.Minute)
	for range 2 * 24 * 60 {
		next = next.Add(time.Minute)
		local := next.In(loc)
		if minutes <= 60 && local.Minute()%minutes == 0 {
			return next.UTC()
		}
		if minutes > 60 && local.Minute() == 0 && local.Hour()%max(minutes/60, 1) == 0 {
			return next.UTC()
		}
	}
	return t.Add(interval).UTC()
}

// Due says why a poll is due at now, for `poll --if-due`: its time has come, or
// a deadline, a retry or a deferred row has. "" means it is not.
func (s State) Due(p Policy, now time.Time) string {
	if s.NextDue.IsZero() || !now.Before(s.NextDue.Add(-dueSlack)) {
		return "next poll"
	}
	if s.NextDue.After(now.Add(s.Interval(p) + dueSlack)) {
		return "the clock was set back"
	}
	if deadline, ok := s.Deadline(p); ok && !now.Before(deadline) {
		return "end of " + string(s.Phase)
	}
	if s.Turn.Status == HeadSuspended && !now.Before(s.Turn.ResumeBy) {
		return "reports are missing"
	}
	if len(s.DueEffects(now)) > 0 {
		return "outbox"
	}
	if s.CanRun(p, now) {
		return "inbox"
	}
	return ""
}
