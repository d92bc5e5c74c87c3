package state

import (
	"fmt"
	"strings"
	"time"
)

// Timers are the phase, and the times that decide when it ends and when to poll next.
type Timers struct {
	Phase      Phase     `json:"phase"`
	PhaseSince time.Time `json:"phase_since"`
	LastStep   time.Time `json:"last_step,omitzero"`
	NextDue    time.Time `json:"next_due,omitzero"` // when the crontab line of this interval fires next

	// Silence counts from the latest of PhaseSince and these two.
	LastOperator time.Time `json:"last_operator,omitzero"`
	LastDelivery time.Time `json:"last_delivery,omitzero"`
	LastMailRead time.Time `json:"last_look,omitzero"` // when the operator's mail was last read to its end
}

func (t *Timers) clampTimes(c clamp) {
	c.past(&t.PhaseSince, &t.LastStep, &t.LastOperator, &t.LastDelivery, &t.LastMailRead)
}

// Phase is IDLE, PREP or ACTIVE (docs/design.md, "Phases").
type Phase string

// The three phases. In IDLE the agent polls every idle interval. In PREP it has
// been woken and polls every engaged interval. In ACTIVE it is in conversation.
const (
	IDLE   Phase = "IDLE"
	PREP   Phase = "PREP"
	ACTIVE Phase = "ACTIVE"
)

// phases lists every phase in the order of the machine.
var phases = [...]Phase{IDLE, PREP, ACTIVE}

// ParsePhase parses a phase as a person types it, in upper or lower case.
func ParsePhase(s string) (Phase, error) {
	for _, p := range phases {
		if strings.EqualFold(s, string(p)) {
			return p, nil
		}
	}
	return "", fmt.Errorf("%q is not a phase: use IDLE, PREP or ACTIVE", s)
}

// Engaged reports whether the phase polls at the engaged interval.
func (p Phase) Engaged() bool { return p == PREP || p == ACTIVE }

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
	why := ByHand
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

// Halts are the switches of HALT. Each is lifted only where it was set.
type Halts struct {
	HaltedHere bool `json:"halted_here,omitempty"`
	HaltedMesh bool `json:"halted_mesh,omitempty"`
}

// Halted reports whether HALT is on, here or on the mesh.
func (h Halts) Halted() bool { return h.HaltedHere || h.HaltedMesh }

// Switched reports HALT (On) or GO: by hand, by mail, or on the mesh.
type Switched struct {
	Mesh   bool
	On     bool
	Reason string
}

// apply sets or lifts HALT where it was switched, here or on the mesh.
func (e Switched) apply(m *machine) {
	flag, where := &m.HaltedHere, "here"
	if e.Mesh {
		flag, where = &m.HaltedMesh, "mesh"
	}
	if *flag == e.On {
		return
	}
	*flag = e.On
	if !e.Mesh {
		m.operatorHeard()
	}
	what := Word(WordGo)
	if e.On {
		what = WordHalt
	}
	m.line(Line{Kind: LineHalt, What: what, From: where, Reason: e.Reason})
	if e.On && m.Turn.Stoppable() {
		m.Turn.Stop = "halt"
	}
	m.schedule()
}

// Redacted implements [Redactable].
func (e Switched) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

func (m *machine) applyHaltLine(l Line) {
	on := l.What == WordHalt
	if l.From == "mesh" {
		m.HaltedMesh = on
		return
	}
	m.HaltedHere = on
	m.operatorHeard()
}

// The controls. The operator gives one by hand, or by a mail whose new text is only the control
// (docs/design.md, "Stop and controls").
const (
	ControlStop   = "STOP"
	ControlHalt   = "HALT"
	ControlGo     = "GO"
	ControlStatus = "STATUS"
)

// Controlled reports a mail of the operator whose new text is only STOP, HALT, GO or STATUS.
type Controlled struct {
	Arrived
	Control string
}

// apply carries out the control and answers it. A control is not a message: it gets no turn and
// wakes nothing. But it counts as hearing the operator.
func (e Controlled) apply(m *machine) {
	msg := e.Message
	m.acknowledgeLater(e.UID, e.MeshID)
	if e.known(m) {
		return
	}
	m.noteSeen(msg.Key)
	m.noteSeen(e.Digest)
	m.LastOperator = m.now
	m.operatorHeard()
	msg.At = m.now
	m.noteMail(msg, e.Thread.Subject)
	m.line(Line{Kind: LineControl, What: Word(e.Control), Key: msg.Key, Source: msg.Source, From: msg.From, Digest: e.Digest})
	switch e.Control {
	case ControlStop:
		Stopped{Reason: "by mail"}.apply(m)
	case ControlHalt:
		Switched{On: true, Reason: "by mail"}.apply(m)
	case ControlGo:
		Switched{On: false, Reason: "by mail"}.apply(m)
	}
	m.queue(Effect{Kind: Answer, Channel: ByMail, To: msg.From, Thread: e.Thread, Text: e.Control})
}

// Stopped reports `stop`, or a mail that says STOP.
type Stopped struct{ Reason string }

// apply marks the turn. The turn's owner sees the mark, ends the agent and delivers the results so
// far.
func (e Stopped) apply(m *machine) {
	if !m.Turn.Stoppable() || m.Turn.Stop != "" {
		return
	}
	m.Turn.Stop = "stop"
	m.operatorHeard()
	m.turnLine(WordStop, e.Reason)
}

// Redacted implements [Redactable].
func (e Stopped) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}
