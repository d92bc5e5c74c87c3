package state

import "time"

// unreadPatience: after this long without one good look at the mail, silence is
// believed and the phase falls to IDLE, without a mail.
const unreadPatience = 30 * time.Minute

// Polled ends the observation of one cycle. Only here timers are looked at.
// Again: in a further round of the same poll, which tries no credential twice.
type Polled struct{ Again bool }

// apply ends an observation: the timers are looked at, and the next poll set.
func (Polled) apply(m *machine) {
	if !m.mailUnread() {
		m.LastLook = m.now
	}
	m.silence()
	m.interruptedSends()
	m.schedule()
}

// mailUnread says whether the operator could have written unseen: silence
// counts only after a good look of this very step.
func (m *machine) mailUnread() bool { return m.policy.HasMail && !m.mailRead }

// silence ends PREP and ACTIVE when nothing was heard for their span. It
// counts only where it could be observed, and never while there is work.
func (m *machine) silence() {
	deadline, ok := m.Deadline(m.policy)
	if !ok || m.now.Before(deadline) || m.hasWork() {
		return
	}
	if m.mailUnread() {
		if m.now.Sub(latest(m.LastLook, m.PhaseSince)) >= unreadPatience {
			m.goIdle("silence could not be observed", false)
		}
		return
	}
	m.goIdle("silence", true)
}

// Deadline is when silence ends the phase, if nothing is heard until then. The
// second result is false in IDLE, which nothing ends.
func (s State) Deadline(p Policy) (time.Time, bool) {
	base := latest(s.LastOperator, s.PhaseSince, s.LastDelivery)
	switch s.Phase {
	case PREP:
		return base.Add(p.PrepTimeout), true
	case ACTIVE:
		return base.Add(p.ActiveTimeout), true
	}
	return time.Time{}, false
}

func latest(times ...time.Time) time.Time {
	var last time.Time
	for _, t := range times {
		if t.After(last) {
			last = t
		}
	}
	return last
}
