package state

import "time"

// WaitingAck is an ack that is made at its time, unless the answer comes first (docs/design.md,
// "Phases").
type WaitingAck struct {
	Until  time.Time `json:"until"`
	Key    string    `json:"key,omitempty"` // of the message that woke the agent, or ""
	Thread Thread    `json:"thread,omitzero"`
	Text   string    `json:"text,omitempty"` // who nudged, and why
}

// waits reports whether an ack waits.
func (w WaitingAck) waits() bool { return !w.Until.IsZero() }

// The values of What in an ack line. An ack that is made has an effect line instead.
const (
	ackWaits    = "waits"
	ackNeedless = "not needed"
)

// The reasons why an ack is not made.
const (
	ackAnswered = "its answer is ready"
	ackWorking  = `"still working" is mailed instead`
)

// letAckWait keeps an ack until its time. When silence ends this waking, the operator may not have
// received any mail about it.
func (m *machine) letAckWait(w WaitingAck) {
	w.Until = m.now.Add(m.policy.AckAfter)
	m.AckWaits = w
	m.Unmailed = !m.isOperators(w.Key)
	m.line(Line{Kind: LineAck, What: ackWaits, Key: w.Key, Ack: &w})
}

// isOperators reports whether the message with this key is in the inbox and is the operator's.
func (m *machine) isOperators(key string) bool {
	msg := m.message(key)
	return msg != nil && msg.Operator
}

// AckDue reports whether the waiting ack is due.
func (s State) AckDue(now time.Time) bool {
	at, waits := s.nextAck()
	return waits && !now.Before(at)
}

// nextAck returns when the waiting ack is due. HALT holds it.
func (s State) nextAck() (at time.Time, waits bool) {
	return s.AckWaits.Until, s.AckWaits.waits() && !s.Halted()
}

// settleAck makes the waiting ack when it is due, and forgets it when its message has left the
// inbox.
func (m *machine) settleAck() {
	w := m.AckWaits
	switch {
	case !w.waits():
	case w.Key != "" && m.message(w.Key) == nil:
		m.withdrawAck(m.whyGone(w.Key))
	case !m.AckDue(m.now):
	case !m.mayAck():
		m.withdrawAck("it is switched off, or six were made within the hour")
	default:
		m.AckWaits = WaitingAck{}
		m.makeAck(w)
	}
}

// whyGone returns why a message is not in the inbox any more.
func (m *machine) whyGone(key string) string {
	for _, l := range m.Lines {
		if l.Kind == LineTask && l.Ends(key) {
			return ackAnswered
		}
	}
	return "its message has left the inbox"
}

// withdrawAck forgets the waiting ack.
func (m *machine) withdrawAck(why string) {
	if m.AckWaits.waits() {
		m.line(Line{Kind: LineAck, What: ackNeedless, Key: m.AckWaits.Key, Reason: why})
		m.AckWaits = WaitingAck{}
	}
}

// answerInsteadOfAck withdraws the ack of a nudge, or of `transition`, when a turn has answered the
// operator. The ack of a message waits for the end of that message.
func (m *machine) answerInsteadOfAck(answered Message, reply *Effect) {
	if m.AckWaits.Key == "" && (answered.Operator || isMail(reply)) {
		m.withdrawAck(ackAnswered)
	}
	if isMail(reply) {
		m.Unmailed = false
	}
}

func isMail(reply *Effect) bool { return reply != nil && reply.Channel == ByMail }

// workingInsteadOfAck withdraws the waiting ack, because the operator gets a "still working" mail
// about its message.
func (m *machine) workingInsteadOfAck() {
	w := m.AckWaits
	if lease := m.collected(); w.Key == "" || w.Key == m.Turn.Key || containsKey(lease, w.Key) {
		m.withdrawAck(ackWorking)
	}
}

func containsKey(rows []Message, key string) bool {
	for _, msg := range rows {
		if msg.Key == key {
			return true
		}
	}
	return false
}

// answeredBefore reports whether the answer is ready before the ack that waited for it was sent.
func (m *machine) answeredBefore(i int) bool {
	switch row := m.Outbox[i]; {
	case m.policy.AckAfter <= 0:
		return false
	case row.Cause != "":
		return m.message(row.Cause) == nil
	}
	return m.answerAfter(i)
}

// applyAckLine lets an ack wait again, or forgets it.
func (m *machine) applyAckLine(l Line) {
	m.AckWaits = WaitingAck{}
	if l.What == ackWaits && l.Ack != nil {
		m.AckWaits, m.Unmailed = *l.Ack, !m.isOperators(l.Key)
	}
}
