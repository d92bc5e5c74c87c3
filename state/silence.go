package state

import "time"

// unreadPatience is how long the mail may stay unread. After it the phase falls to
// IDLE without a mail, though silence could not be observed.
const unreadPatience = 30 * time.Minute

// Polled ends the observation of one cycle. Timers are checked only here. Again is
// set in a later round of the same poll, which tries neither a credential nor an obstacle
// twice.
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

// mailUnread reports whether the operator could have written unseen. Silence counts
// only if this very step has read the mail to its end.
func (m *machine) mailUnread() bool { return m.policy.HasMail && !m.mailRead }

// silence ends PREP and ACTIVE after their span without a message. It counts only
// where it could be observed, and never while there is work.
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
	// The ack was the one mail of a ring that nothing followed, and what the operator has
	// heard nothing of needs no ending.
	m.goIdle("silence", m.WokenBy == "" && !m.Unmailed)
}

// Deadline returns when silence ends the phase if no message comes until then, and an
// answer that waits is not delivered. It returns false in IDLE, which nothing ends.
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
