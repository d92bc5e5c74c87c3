package state

import "time"

// clampClock repairs the times that became impossible when the clock was set back (docs/design.md,
// "Timers"), so that no clock can freeze the machine. Each subject repairs its own times.
func (m *machine) clampClock() {
	c := clamp{m.now}
	m.Identity.clampTimes(c)
	m.Elsewhere.clampTimes(c)
	m.Timers.clampTimes(c)
	m.Exchange.clampTimes(c)
	m.Hourly.clampTimes(c)
	m.Waking.clampTimes(c, m.policy)
	m.Reading.clampTimes(c)
	m.Nudging.clampTimes(c)
	m.Received.clampTimes(c)
	m.ChallengeQueue.clampTimes(c)
	m.Deliveries.clampTimes(c)
	m.HookQueue.clampTimes(c)
	m.Work.clampTimes(c, m.policy)
	for i := range m.Prompts {
		c.past(&m.Prompts[i].Since)
		c.deadline(&m.Prompts[i].AskedUntil, PromptLease)
	}
	for i := range m.Expected {
		m.Expected[i].clampTimes(c)
		c.past(&m.Expected[i].Cause.At, &m.Expected[i].Cause.Observed)
	}
	m.Memories.clampTimes(c)
	m.Faults.clampTimes(c)
	c.past(&m.Pruned, &m.Schedule.Verified, &m.Published.At)
	for key, at := range m.Seen {
		if at > m.now.Unix() {
			m.noteSeen(key)
		}
	}
	if m.NextDue.After(m.now.Add(m.Interval(m.policy) + time.Minute)) {
		m.schedule()
	}
}

// clamp repairs times by the present one.
type clamp struct{ now time.Time }

// past moves past events that now seem to be in the future to now.
func (c clamp) past(times ...*time.Time) {
	for _, t := range times {
		if t.After(c.now) {
			*t = c.now
		}
	}
}

// pastAll is past for a list.
func (c clamp) pastAll(times []time.Time) {
	for i := range times {
		c.past(&times[i])
	}
}

// deadline moves a deadline that is further off than its span to one span from now.
func (c clamp) deadline(t *time.Time, span time.Duration) {
	if limit := c.now.Add(span); t.After(limit) {
		*t = limit
	}
}

// earlier returns the earlier of two times.
func earlier(t, u time.Time) time.Time {
	if u.Before(t) {
		return u
	}
	return t
}

// firstYear is the first year that a server may give for an event.
const firstYear = 1970

// happened returns t, the time that a server gives for a past event. It returns now if t is in the
// future, or before computers kept time. JSON has no year before 0.
func happened(t, now time.Time) time.Time {
	if t.Year() < firstYear {
		return now
	}
	return earlier(t, now)
}

// countLivedTime adds the time since the last step to the counters of time lived through. When the
// clock jumps ahead, a step counts for at most two idle intervals or an hour, so that not
// everything expires at once.
func (m *machine) countLivedTime() {
	if m.LastStep.IsZero() {
		return
	}
	lived := min(m.now.Sub(m.LastStep), max(2*m.policy.IdleInterval, time.Hour))
	for i := range m.HookCalls {
		m.HookCalls[i].Waited += lived
	}
	if !m.Halted() {
		for i := range m.Outbox {
			m.Outbox[i].Waited += lived
		}
	}
}
