package state

import (
	"cmp"
	"iter"
	"slices"
)

// Message returns the inbox row with this key.
func (s State) Message(key string) (Message, bool) {
	return s.findInInbox(func(msg Message) bool { return msg.Key == key })
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
func (s State) FindMessage(history iter.Seq2[Line, error], match func(Message) bool) (msg Message, ok bool, err error) {
	if msg, ok := s.findInInbox(match); ok {
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

func (s State) findInInbox(match func(Message) bool) (Message, bool) {
	i := slices.IndexFunc(s.Inbox, match)
	if i < 0 {
		return Message{}, false
	}
	return s.Inbox[i], true
}

// message returns the inbox row with this key, or nil. The row is valid until the inbox changes.
func (m *machine) message(key string) *Message {
	i := slices.IndexFunc(m.Inbox, func(msg Message) bool { return msg.Key == key })
	if i < 0 {
		return nil
	}
	return &m.Inbox[i]
}

// lineRetried marks the history line of a message that was queued again.
const lineRetried = "retried"

// Retried reports `inbox retry`: a message that was given up or is deferred is queued again at the
// end.
type Retried struct{ Message Message }

// apply queues the message like one without an earlier turn. An earlier turn has already had its
// deliverable.
func (e Retried) apply(m *machine) {
	if waiting := m.message(e.Message.Key); waiting != nil {
		waiting.Damaged, waiting.Refetches = false, 0
		waiting.ByHand = waiting.ByHand || waiting.Source == Clock
		switch {
		case waiting.Status != Deferred:
		case waiting.Source == Self && waiting.TurnID == "":
			m.retryWakeup(waiting)
		default:
			waiting.Status, waiting.Reason = Queued, ""
			waiting.NextRetryAt = m.now
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
	m.line(Line{Kind: LineMessage, What: lineRetried, Key: msg.Key, Source: msg.Source, From: msg.From, Message: &msg})
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
		m.line(Line{Kind: LineEnded, Key: e.Key, What: string(Skipped), Reason: e.Reason})
		return
	}
	msg := m.message(e.Key)
	if msg == nil || msg.Status == Pending || msg.Status == Processing {
		return
	}
	m.line(Line{Kind: LineEnded, Key: e.Key, Source: msg.Source, What: string(Skipped), Reason: e.Reason})
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
		if l.What == lineRetried || l.Message.ByHand {
			m.operatorHeard()
		}
	case l.Source == Self:
		if l.What == lineRetried {
			m.messageFollowed()
		}
		if l.What == lineRetried || l.Message.MadeBy == "" {
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
	if m.message(l.Key) == nil {
		m.Inbox = append(m.Inbox, *l.Message)
	}
}

// removeMessage removes a message from the inbox.
func (m *machine) removeMessage(key string) {
	m.Inbox = slices.DeleteFunc(m.Inbox, func(msg Message) bool { return msg.Key == key })
}
