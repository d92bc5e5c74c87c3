package state

// wake takes IDLE to PREP, with at most one ack. In PREP and ACTIVE it changes nothing, because the
// agent already polls every engaged interval. key is the key of the message that wakes, or "".
func (m *machine) wake(why, key string, thread Thread, ack bool) {
	if m.Phase != IDLE {
		return
	}
	m.enter(PREP, why)
	if ack {
		m.ack(key, thread)
	}
}

// enter changes the phase. The interval follows from the phase.
func (m *machine) enter(to Phase, why string) {
	if m.Phase == to {
		return
	}
	m.line(Line{Kind: LineTransition, Old: m.Phase, New: to, Reason: why})
	m.Phase = to
	m.PhaseSince = m.now
	if to != PREP {
		m.WokenBy = ""
	}
	if to == IDLE {
		m.endSessions()
		m.withdrawAck("PREP is over")
		m.Unmailed = false
	}
	m.schedule()
}

// applyTransitionLine enters the phase again.
func (m *machine) applyTransitionLine(l Line) {
	m.Phase, m.PhaseSince = l.New, l.At
	if l.New != PREP {
		m.WokenBy = ""
	}
	if l.New == IDLE {
		m.endSessions()
		m.AckWaits, m.Unmailed = WaitingAck{}, false
	}
}

// goIdle enters IDLE. If mail is set it sends a quiet, unless there is work, an
// answer is owed, or a message of the operator waits for a backend.
func (m *machine) goIdle(why string, mail bool) {
	from := m.Phase
	m.enter(IDLE, why)
	if mail && from != IDLE && !m.hasWork(m.policy, m.now) && !m.answerPending() && !m.waitsForBackend() {
		m.quiet(from)
	}
}

// Ordered reports `transition STATE`, the operator's override.
type Ordered struct {
	To     Phase
	Reason string
	NoMail bool
}

// apply takes the entry and exit actions of the phase. It does nothing if the agent is in that
// phase already.
func (e Ordered) apply(m *machine) {
	why := "by hand"
	if e.Reason != "" {
		why += ": " + e.Reason
	}
	switch {
	case e.To == m.Phase:
	case e.To == IDLE:
		m.goIdle(why, !e.NoMail)
	case e.To == PREP && m.Phase == IDLE:
		m.wake(why, "", Thread{}, !e.NoMail)
	case e.To == PREP || e.To == ACTIVE:
		m.enter(e.To, why)
	}
}

// Redacted implements [Redactable].
func (e Ordered) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}
