package state

import (
	"cmp"
	"time"
)

// maxDeferral bounds how far ahead NextRetryAt of a message may be, unless the message is over the
// hourly limit on mails.
const maxDeferral = time.Hour

// Arrived reports that a message passed the gate and its payload is durable.
type Arrived struct {
	Message Message
	Digest  string // the same for every copy, or ""
	UID     uint32 // of a mail to mark \Seen
	MeshID  string // of an item to acknowledge to the mesh
	Thread  Thread // the conversation of a mail

	// IfRoom refuses the message if the limit on waiting messages of programs is reached. The
	// sender is told so and still has the message.
	IfRoom bool

	// OldDigest is the digest of the item in earlier versions, or "".
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

// apply queues a message and wakes the phase. A copy of an earlier message, with the same key or
// digest, is only acknowledged to its server.
func (e Arrived) apply(m *machine) {
	if e.IfRoom && m.RoomForEvents() == 0 {
		return
	}
	msg := e.Message
	msg.Trace = cmp.Or(msg.Trace, m.mintTrace(msg.Key))
	m.trace = msg.Trace
	m.acknowledgeLater(e.UID, e.MeshID)
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
	m.limitRate(&msg)
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
			m.WokenBy = msg.From // the operator gets no ack, so no quiet follows either
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

// engage changes the phase as a message of the operator does. awaited is the key of the message
// whose answer replaces a waiting ack.
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

// Noted reports an item that needs no turn and no gate, such as an echo of our own message or a
// report that no turn waits for. It is acknowledged and recorded in the history. Answer, if set, is
// sent back.
type Noted struct {
	Key, Kind, From, Reason string
	Source                  Source
	MeshID                  string
	Trace                   string // of its chain, or ""
	Answer                  *Effect
}

// apply acknowledges and records the item.
func (e Noted) apply(m *machine) {
	m.acknowledgeLater(0, e.MeshID)
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
