package state

import "time"

// unreadPatience is how long the mail may stay unread. After that the phase falls to IDLE without a
// mail, though silence could not be observed.
const unreadPatience = 30 * time.Minute

// Polled ends the observation of one cycle. Timers are checked only here. Again is set in a later
// round of the same poll, which does not try a credential or an obstacle a second time.
type Polled struct{ Again bool }

// apply checks the timers and sets the next poll.
func (e Polled) apply(m *machine) {
	if !m.mailUnread() {
		m.LastMailRead = m.now
	}
	if !e.Again {
		m.tryObstacles()
	}
	m.planPrompts()
	m.silence()
	m.interruptedSends()
	m.schedule()
}

func (Polled) rank() (int, time.Time) { return rankEnd, time.Time{} }

// mailUnread reports whether the operator could have written without our notice. Silence counts
// only if this step has read the mail to its end.
func (m *machine) mailUnread() bool { return m.policy.HasMail && !m.mailRead }

// silence ends PREP and ACTIVE after their span without a message. It counts only if it could be
// observed, and never while there is work.
func (m *machine) silence() {
	deadline, ok := m.Deadline(m.policy)
	if !ok || m.now.Before(deadline) || m.hasWork(m.policy, m.now) {
		return
	}
	if m.mailUnread() || m.largeUnderWay() {
		if m.now.Sub(latest(m.LastMailRead, m.PhaseSince)) >= unreadPatience {
			m.goIdle("silence could not be observed", false)
		}
		return
	}
	// The ack was the one mail about a nudge that no message followed. A waking that the operator
	// got no mail about needs no mail about its end.
	m.goIdle("silence", m.WokenBy == "" && !m.Unmailed)
}

// Deadline returns when silence ends the phase, unless a message comes or a waiting answer is
// delivered before then. It returns false in IDLE, which silence does not end.
func (s State) Deadline(p Policy) (time.Time, bool) {
	base := latest(s.LastOperator, s.PhaseSince, s.LastDelivery, s.owedUntil())
	switch s.Phase {
	case PREP:
		return base.Add(p.PrepTimeout), true
	case ACTIVE:
		return base.Add(p.ActiveTimeout), true
	}
	return time.Time{}, false
}

// latest returns the latest of times.
func latest(times ...time.Time) time.Time {
	var last time.Time
	for _, t := range times {
		if t.After(last) {
			last = t
		}
	}
	return last
}
