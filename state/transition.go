package state

import "time"

// mailsAnHour bounds acks and quiets, each (DESIGN 5).
const mailsAnHour = 6

// lookPatience: after this long without one good look at the mail, silence is
// believed and the phase falls to IDLE, without a mail.
const lookPatience = 30 * time.Minute

// wake takes IDLE to PREP, with at most one ack. Engaged, it is polling
// already, and nothing changes.
func (m *machine) wake(why string, thread Thread, ack bool) {
	if m.Phase != IDLE {
		return
	}
	m.enter(PREP, why)
	if ack {
		m.ack(thread)
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
	if to == IDLE {
		m.Session = Session{} // the conversation is over; the history keeps it
	}
	m.schedule()
}

// goIdle enters IDLE and says so, unless there is work or nobody would know.
func (m *machine) goIdle(why string, mail bool) {
	from := m.Phase
	m.enter(IDLE, why)
	if mail && from != IDLE && !m.hasWork() {
		m.quiet(from)
	}
}

// Ordered: `transition STATE`, the operator's override.
type Ordered struct {
	To     Phase
	Reason string
	NoMail bool
}

// apply is `transition STATE`: that state's entry and exit actions, nothing
// when it is the state already.
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
		m.wake(why, Thread{}, !e.NoMail)
	case e.To == PREP || e.To == ACTIVE:
		m.enter(e.To, why)
	}
}

// Redacted implements [Redactable].
func (e Ordered) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

// Switched: HALT (On) or GO, by hand or mail, or as the mesh has it.
type Switched struct {
	Mesh   bool
	On     bool
	Reason string
}

// apply sets or lifts HALT, there where it belongs.
func (e Switched) apply(m *machine) {
	flag, where := &m.HaltedHere, "here"
	if e.Mesh {
		flag, where = &m.HaltedMesh, "mesh"
	}
	if *flag == e.On {
		return
	}
	*flag = e.On
	what := "go"
	if e.On {
		what = "halt"
	}
	m.line(Line{Kind: LineHalt, What: what, From: where, Reason: e.Reason})
	if e.On && m.Turn.Status != HeadIdle {
		m.Turn.Stop = "halt"
	}
	m.schedule()
}

// Redacted implements [Redactable].
func (e Switched) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

// Looked: a source was read to its end. Mail brings its new cursor.
type Looked struct {
	Source Source
	Cursor *Cursor
}

// apply notes a good look, from which silence may be believed.
func (e Looked) apply(m *machine) {
	if e.Source != Mail {
		return
	}
	m.mailLooked = true
	m.read(e.Cursor)
}

// LookFailed: a source could not be read, or not to its end. What was read
// before counts: mail brings the cursor of it.
type LookFailed struct {
	Source Source
	Cursor *Cursor
}

// apply keeps what was read before the failure.
func (e LookFailed) apply(m *machine) {
	if e.Source == Mail {
		m.read(e.Cursor)
	}
}

func (m *machine) read(c *Cursor) {
	if c == nil {
		return
	}
	m.Cursor = *c
	m.Cursor.Complete = earlier(c.Complete.UTC(), m.now)
}

// Polled ends the observation of one cycle. Only here timers are looked at.
// Again: in a further round of the same poll, which tries no credential twice.
type Polled struct{ Again bool }

// apply ends an observation: the timers are looked at, and the next poll set.
func (Polled) apply(m *machine) {
	if !m.looksBlind() {
		m.LastLook = m.now
	}
	m.silence()
	m.leftSending()
	m.schedule()
}

// looksBlind says whether the operator could have written unseen: silence
// counts only after a good look of this very step.
func (m *machine) looksBlind() bool { return m.policy.HasMail && !m.mailLooked }

// silence ends PREP and ACTIVE when nothing was heard for their span. It
// counts only where it could be observed, and never while there is work.
func (m *machine) silence() {
	deadline, ok := m.Deadline(m.policy)
	if !ok || m.now.Before(deadline) || m.hasWork() {
		return
	}
	if m.looksBlind() {
		if m.now.Sub(latest(m.LastLook, m.PhaseSince)) >= lookPatience {
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

// schedule sets the next time at which the asked-for crontab line fires.
func (m *machine) schedule() {
	m.NextDue = nextFire(m.Interval(m.policy), m.now, m.policy.Location)
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
