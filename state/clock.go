package state

import (
	"cmp"
	"time"
)

// clampClock repairs the times that became impossible when the clock was set back (docs/design.md,
// "Timers"). It moves a past event that now seems to be in the future to now. It moves a deadline
// that is further off than its span to one span from now. So no clock can freeze the machine.
func (m *machine) clampClock() {
	past := []*time.Time{
		&m.PhaseSince, &m.LastStep, &m.LastOperator, &m.LastDelivery, &m.LastMailRead,
		&m.Cursor.Complete, &m.Schedule.Verified, &m.Turn.Since, &m.Pruned, &m.Reset.At, &m.Compacted.At,
		&m.Published.At, &m.LastChallenge, &m.RateTold, &m.SendingFails.Since, &m.Cursor.Swept, &m.LastRing.At,
		&m.LastMail.At, &m.LastAnswer.At, &m.LastAnswer.Sent,
	}
	for i := range m.Others {
		past = append(past, &m.Others[i].Compacted.At)
	}
	for i := range m.Challenges {
		past = append(past, &m.Challenges[i].Made)
	}
	for i := range m.Turn.Given {
		past = append(past, &m.Turn.Given[i].Asked)
	}
	for i := range m.Turn.Waiting {
		past = append(past, &m.Turn.Waiting[i].Asked)
	}
	for i := range m.Expected {
		x := &m.Expected[i]
		past = append(past, &x.Asked, &x.Cause.At, &x.Cause.Observed)
	}
	for i := range m.Outbox {
		past = append(past, &m.Outbox[i].Created)
	}
	for i := range m.HookCalls {
		past = append(past, &m.HookCalls[i].Created)
	}
	for i := range m.Unfiled {
		past = append(past, &m.Unfiled[i].Sent)
	}
	for i := range m.Undelivered {
		past = append(past, &m.Undelivered[i].Created, &m.Undelivered[i].GivenUp)
	}
	for _, times := range [][]time.Time{m.Acks, m.Quiets, m.Accepted, m.Programs, m.Alarms, m.Posts} {
		for i := range times {
			past = append(past, &times[i])
		}
	}
	for i := range m.OperatorAsked {
		past = append(past, &m.OperatorAsked[i].At)
	}
	for i := range m.Relays {
		past = append(past, &m.Relays[i].At)
	}
	for i := range m.Rings {
		past = append(past, &m.Rings[i].At)
	}
	for i := range m.Rung {
		past = append(past, &m.Rung[i].At)
	}
	for i := range m.Lost {
		past = append(past, &m.Lost[i].At, &m.Lost[i].Told)
	}
	for i := range m.Prompts {
		past = append(past, &m.Prompts[i].Since)
	}
	for _, t := range past {
		*t = earlier(*t, m.now)
	}
	m.clampInbox()
	for name, f := range m.FailingHooks {
		f.Since, f.Told = earlier(f.Since, m.now), earlier(f.Told, m.now)
		m.FailingHooks[name] = f
	}
	for name, c := range m.Credentials {
		c.Since = earlier(c.Since, m.now)
		m.Credentials[name] = c
	}
	for name, o := range m.Outages {
		o.Since = earlier(o.Since, m.now)
		m.Outages[name] = o
	}
	for key, at := range m.Seen {
		if at > m.now.Unix() {
			m.noteSeen(key)
		}
	}
	m.clampFailures()
	m.clampDeadlines()
}

// clampInbox does the same for the rows of the inbox. There may be many.
func (m *machine) clampInbox() {
	for i := range m.Inbox {
		row := &m.Inbox[i]
		if row.At.After(m.now) {
			row.At = m.now
		}
		if row.Observed.After(m.now) {
			row.Observed = m.now
		}
	}
}

// clampFailures does the same for the mails that cannot be fetched. A scan returns their times
// unrepaired.
func (m *machine) clampFailures() {
	for uid, f := range m.Cursor.Failures {
		f.Since, f.After = earlier(f.Since, m.now), earlier(f.After, m.now)
		f.Next = earlier(f.Next, m.now.Add(f.pause()))
		m.Cursor.Failures[uid] = f
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

// clampDeadlines moves each deadline to at most its span from now.
func (m *machine) clampDeadlines() {
	nearest := func(t *time.Time, span time.Duration) {
		if limit := m.now.Add(span); t.After(limit) {
			*t = limit
		}
	}
	nearest(&m.CooldownUntil, m.policy.Cooldown)
	nearest(&m.AckWaits.Until, m.policy.AckAfter)
	nearest(&m.SleepUntil, cmp.Or(m.SleepFor, MaxSleep)) // 0 in states of an older version
	for name, o := range m.Outages {
		nearest(&o.Until, min(o.Wait, maxOutage))
		m.Outages[name] = o
	}
	for i := range m.Prompts {
		nearest(&m.Prompts[i].AskedUntil, PromptLease)
	}
	for i := range m.Challenges {
		nearest(&m.Challenges[i].Until, tokenLife)
	}
	for i := range m.Turn.Given {
		nearest(&m.Turn.Given[i].By, min(m.Turn.Given[i].Span, MaxPatience))
	}
	for i := range m.Turn.Waiting {
		nearest(&m.Turn.Waiting[i].By, min(m.Turn.Waiting[i].Span, MaxPatience))
	}
	for i := range m.Expected {
		nearest(&m.Expected[i].By, min(m.Expected[i].Span, MaxPatience))
	}
	for i := range m.Inbox {
		if row := &m.Inbox[i]; !row.NextRetryAt.IsZero() && !row.overRate() { // its time follows from Accepted
			nearest(&row.NextRetryAt, row.maxWait())
		}
	}
	for i := range m.Outbox {
		nearest(&m.Outbox[i].NotBefore, maxBackoff)
		nearest(&m.Outbox[i].Expires, max(ackLife, m.Outbox[i].Kind.life()))
	}
	for i := range m.HookCalls {
		nearest(&m.HookCalls[i].NotBefore, maxBackoff)
	}
	for i := range m.Unfiled {
		nearest(&m.Unfiled[i].NotBefore, maxBackoff)
	}
	for i := range m.Undelivered {
		nearest(&m.Undelivered[i].Expires, m.Undelivered[i].Kind.life())
	}
	if m.NextDue.After(m.now.Add(m.Interval(m.policy) + time.Minute)) {
		m.schedule()
	}
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
