package state

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"
)

// Received holds the messages that wait, and counts what came in.
type Received struct {
	Inbox       []Message `json:"inbox,omitempty" members:"again"` // in order of arrival
	Arrivals    uint64    `json:"arrivals"`                        // of all time
	Quarantined int       `json:"quarantined,omitempty"`           // items in quarantine/
	Unkept      int       `json:"unkept,omitempty"`                // items ever rejected beyond the limits of quarantine/

	Uncalled Uncalled `json:"uncalled,omitzero"`

	Numbers   Numbers           `json:"numbers,omitzero"`
	Unfetched map[string]uint64 `json:"unfetched,omitempty"` // numbers of mails that are not fetched yet, by key
}

func (r Received) clone() Received {
	r.Inbox, r.Unfetched = slices.Clone(r.Inbox), maps.Clone(r.Unfetched)
	return r
}

func (r *Received) clampTimes(c clamp) {
	for i := range r.Inbox {
		row := &r.Inbox[i]
		c.past(&row.At, &row.Observed)
		if !row.NextRetryAt.IsZero() && !row.overRate() { // its time follows from Accepted
			c.deadline(&row.NextRetryAt, row.maxWait())
		}
	}
	c.past(&r.Uncalled.Last)
}

// maxDeferral bounds how far ahead NextRetryAt of a message may be, unless the message is over the
// hourly limit on mails.
const maxDeferral = time.Hour

// Arrived reports that a message passed the gate and its payload is durable.
type Arrived struct {
	Message Message
	Digest  string // the same for every copy, or ""
	UID     uint32 // of a mail to mark \Seen
	MeshID  string // acknowledges an item to the mesh: its id, or over NATS SENDER/ID
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
	m.noteRestoredRun(e.UID)
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
	m.line(Line{Kind: LineNote, Key: e.Key, Source: e.Source, From: e.From, What: Word(e.Kind), Reason: e.Reason})
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

// Message returns the inbox row with this key.
func (r Received) Message(key string) (Message, bool) {
	return r.findInInbox(func(msg Message) bool { return msg.Key == key })
}

// TurnMessage returns the inbox row of the active turn's message.
func (s State) TurnMessage() (Message, bool) { return s.Message(s.Turn.Key) }

// MessageOfTurn returns the inbox row of the message with this turn id. If several messages share
// the turn, it is the active turn's own message, or else the oldest.
func (s State) MessageOfTurn(turnID string) (Message, bool) {
	if msg, ok := s.TurnMessage(); ok && turnID != "" && msg.TurnID == turnID {
		return msg, true
	}
	return s.findInInbox(func(msg Message) bool { return turnID != "" && msg.TurnID == turnID })
}

// FindMessage returns a message that match accepts: its inbox row or, if the message has left the
// inbox, its row from history with its final status. history must yield at least the lines of the
// kinds LineMessage, LineTask and LineEnded.
func (r Received) FindMessage(history iter.Seq2[Line, error], match func(Message) bool) (msg Message, ok bool, err error) {
	if msg, ok := r.findInInbox(match); ok {
		return msg, true, nil
	}
	for l, err := range history {
		switch {
		case err != nil:
			return Message{}, false, err
		case l.Message != nil && match(*l.Message):
			msg, ok = *l.Message, true
		case ok && l.Kind == LineTask && l.Ends(msg.Key):
			msg.Status = Consumed
		case ok && l.Key == msg.Key && l.Kind == LineEnded:
			msg.Status = Status(l.What)
		}
	}
	return msg, ok, nil
}

func (r Received) findInInbox(match func(Message) bool) (Message, bool) {
	i := slices.IndexFunc(r.Inbox, match)
	if i < 0 {
		return Message{}, false
	}
	return r.Inbox[i], true
}

// message returns the inbox row with this key, or nil. The row is valid until the inbox changes.
func (r *Received) message(key string) *Message {
	i := slices.IndexFunc(r.Inbox, func(msg Message) bool { return msg.Key == key })
	if i < 0 {
		return nil
	}
	return &r.Inbox[i]
}

// Retried reports `inbox retry`: a message that was given up or is deferred is queued again at the
// end.
type Retried struct {
	Message Message
	Origin  string // the place of the order, for the history; "" for the terminal
}

// apply queues the message like one without an earlier turn. An earlier turn has already had its
// deliverable.
func (e Retried) apply(m *machine) {
	if waiting := m.message(e.Message.Key); waiting != nil {
		waiting.Damaged, waiting.Refetches = false, 0
		waiting.ByHand = waiting.ByHand || waiting.Source == Clock
		switch {
		case waiting.Held:
			m.retryHeld(waiting, e.Origin)
		case waiting.Status != Deferred:
		case waiting.Source == Self && waiting.TurnID == "":
			m.retryWakeup(waiting, e.Origin)
		default:
			waiting.Status, waiting.Reason = Queued, ""
			waiting.NextRetryAt = m.now
			if e.Origin != "" {
				m.line(Line{Kind: LineNote, What: WordRetried, Key: waiting.Key, Source: waiting.Source, Reason: e.Origin})
			}
		}
		return
	}
	msg := e.Message
	m.noteSeen(msg.Key)
	m.Arrivals++
	msg.Seq, msg.Observed, msg.At = m.Arrivals, m.now, happened(msg.At.UTC(), m.now)
	msg.Status, msg.TurnID, msg.Epoch, msg.Attempts, msg.Cost, msg.Note, msg.Fresh, msg.Reason = Queued, "", 0, 0, 0, "", false, ""
	msg.Damaged, msg.Refetches = false, 0
	msg.Trace = cmp.Or(msg.Trace, m.mintTrace(msg.Key))
	if msg.Source == Clock {
		m.operatorHeard()
		msg.ByHand = true
	}
	if msg.Source == Self {
		m.operatorHeard()
		msg.Status, msg.Reason, msg.NextRetryAt, msg.Span = Deferred, msg.Kind, m.now, 0
	}
	m.Inbox = append(m.Inbox, msg)
	m.messageFollowed()
	m.Asleep = false
	m.line(Line{Kind: LineMessage, What: WordRetried, Key: msg.Key, Source: msg.Source, From: msg.From, Message: &msg, Reason: e.Origin})
}

// Dropped reports `inbox drop`: a waiting message loses its turn, or a mail that is not fetched yet
// is not tried again.
type Dropped struct{ Key, Reason string }

// apply removes a waiting message from the inbox. It leaves the message of the active turn alone,
// which `stop` ends.
func (e Dropped) apply(m *machine) {
	if m.IsUnfetched(e.Key) {
		m.noteSeen(e.Key)
		m.forgetUnfetched(e.Key)
		m.line(Line{Kind: LineEnded, Key: e.Key, What: Word(Skipped), Reason: e.Reason})
		return
	}
	msg := m.message(e.Key)
	if msg == nil || msg.Status == Pending || msg.Status == Processing {
		return
	}
	m.line(Line{Kind: LineEnded, Key: e.Key, Source: msg.Source, What: Word(Skipped), Reason: e.Reason})
	m.sleepEnds(*msg)
	m.removeMessage(e.Key)
}

// Redacted implements [Redactable].
func (e Dropped) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

func (m *machine) applyMessageLine(l Line) {
	if l.Message == nil {
		return
	}
	m.noteSeen(l.Key)
	m.noteSeen(l.Digest)
	m.Arrivals = max(m.Arrivals, l.Message.Seq)
	switch {
	case l.Source == Clock:
		if l.What == WordRetried || l.Message.ByHand {
			m.operatorHeard()
		}
	case l.Source == Self:
		if l.What == WordRetried {
			m.messageFollowed()
		}
		if l.What == WordRetried || l.Message.MadeBy == "" {
			m.operatorHeard()
		}
	default:
		m.messageFollowed()
		if l.Message.Operator && l.What == "" {
			m.LastOperator = l.At
			m.operatorHeard()
			m.noteMail(*l.Message, "")
		}
	}
	m.countAgainstLimit(l)
	switch row := m.message(l.Key); {
	case row == nil:
		m.Inbox = append(m.Inbox, *l.Message)
	case row.Held:
		*row = *l.Message // retried
	}
}

// removeMessage removes a message from the inbox.
func (r *Received) removeMessage(key string) {
	r.Inbox = slices.DeleteFunc(r.Inbox, func(msg Message) bool { return msg.Key == key })
}
