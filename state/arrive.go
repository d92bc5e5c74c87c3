package state

import (
	"cmp"
	"time"
)

// maxDeferral bounds how far ahead NextRetryAt of a message may be, unless it waits
// for the hour to hold fewer mails.
const maxDeferral = time.Hour

// Arrived reports that a message passed the gate and its payload is durable.
type Arrived struct {
	Message Message
	Digest  string // the same for all copies; "" = none
	UID     uint32 // of a mail that is to be marked \Seen
	MeshID  string // of an item that the mesh is to be acknowledged
	Thread  Thread // the conversation that a mail belongs to

	// IfRoom is set if the message is not to come in while as many messages of programs
	// wait as may. Who sent it is told so, and has it still.
	IfRoom bool

	// OldDigest is the digest that earlier versions gave the item, or "".
	OldDigest string
}

// known reports whether a copy of the item was accepted before.
func (e Arrived) known(m *machine) bool {
	seen := m.seen(e.Message.Key)
	for _, digest := range []string{e.Digest, e.OldDigest} {
		seen = digest != "" && m.seen(digest) || seen
	}
	return seen
}

// apply queues a message and wakes the phase. A copy of what was accepted before,
// under the same key or with the same digest, is only acknowledged to its server.
func (e Arrived) apply(m *machine) {
	if e.IfRoom && m.RoomForEvents() == 0 {
		return
	}
	msg := e.Message
	msg.Trace = cmp.Or(msg.Trace, m.mintTrace(msg.Key))
	m.trace = msg.Trace
	m.owe(e.UID, e.MeshID)
	if e.known(m) {
		m.noteSeen(msg.Key)
		m.line(Line{Kind: LineDuplicate, Key: msg.Key, Source: msg.Source, From: msg.From})
		return
	}
	m.noteSeen(msg.Key)
	m.noteSeen(e.Digest)

	msg.ThreadID = cmp.Or(msg.ThreadID, e.Thread.ID)
	m.Arrivals++
	msg.Seq = m.Arrivals
	msg.Observed = m.now
	msg.At = happened(msg.At.UTC(), m.now)
	msg.Status = Queued
	m.ration(&msg)
	m.collect(&msg)
	msg.EndedSleep = m.endSleeps(msg.Principal(), "a message from "+msg.From)
	m.Inbox = append(m.Inbox, msg)
	unheard := m.policy.NoPeerAck && (m.Phase == IDLE || m.WokenBy != "")
	m.messageFollowed()
	m.Asleep = false
	m.line(Line{Kind: LineMessage, Key: msg.Key, Source: msg.Source, From: msg.From, Message: &msg, Digest: e.Digest})
	m.enqueued(msg)

	if !msg.Operator {
		m.wake(string(msg.Source)+" from "+msg.From, msg.Key, Thread{}, !m.policy.NoPeerAck)
		if unheard {
			m.WokenBy = msg.From // no quiet follows what the operator was not mailed about
		}
		return
	}
	m.LastOperator = m.now
	m.operatorHeard()
	if msg.Source == Mail {
		m.heardFrom = msg.From
		m.noteMail(msg, e.Thread.Subject)
		m.Thread = e.Thread
	}
	if m.Turn.Status == HeadSuspended && !m.asksItsOperator() {
		m.supersede()
	}
	m.engage(msg, msg.Key, e.Thread)
}

// engage takes the phase where a message of the operator takes it. awaited is the key of
// the message whose answer stands in for an ack that waits.
func (m *machine) engage(msg Message, awaited string, thread Thread) {
	switch m.Phase {
	case IDLE:
		m.wake("operator message", awaited, thread, msg.Source == Mail)
	case PREP:
		m.enter(ACTIVE, "operator message")
	case ACTIVE:
		// LastOperator has restarted the timer.
	}
}

func (e Arrived) rank() (int, time.Time) { return rankArrival, e.Message.At }

// Noted reports an item that needs neither turn nor gate, such as an echo of our
// own or a report that nobody waits for. It is acknowledged and recorded in the
// history. Answer, if any, is sent back.
type Noted struct {
	Key, Kind, From, Reason string
	Source                  Source
	MeshID                  string
	Trace                   string // of its chain, or ""
	Answer                  *Effect
}

// apply acknowledges and records the item.
func (e Noted) apply(m *machine) {
	m.owe(0, e.MeshID)
	if m.seen(e.Key) {
		return
	}
	m.noteSeen(e.Key)
	m.trace = e.Trace
	m.line(Line{Kind: LineNote, Key: e.Key, Source: e.Source, From: e.From, What: e.Kind, Reason: e.Reason})
	if e.Answer != nil {
		m.queue(*e.Answer)
	}
}

// Redacted implements [Redactable].
func (e Noted) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	e.Answer = redactedEffect(e.Answer, redact)
	return e
}
