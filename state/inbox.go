package state

import "slices"

// Find returns the inbox row with this key.
func (s State) Find(key string) (Message, bool) {
	i := slices.IndexFunc(s.Inbox, func(m Message) bool { return m.Key == key })
	if i < 0 {
		return Message{}, false
	}
	return s.Inbox[i], true
}

// messageIndex returns the index of the inbox row with this key.
func (m *machine) messageIndex(key string) (int, bool) {
	i := slices.IndexFunc(m.Inbox, func(msg Message) bool { return msg.Key == key })
	return i, i >= 0
}

// lineRetried marks the history line of a message that was queued again.
const lineRetried = "retried"

// Retried reports `inbox retry`: a message that was given up, or is deferred, is
// queued again at the end.
type Retried struct{ Message Message }

// apply queues the message like one that had no turn yet. Its former turn, if it
// had one, has had its deliverable.
func (e Retried) apply(m *machine) {
	if i, there := m.messageIndex(e.Message.Key); there {
		if m.Inbox[i].Status == Deferred {
			m.Inbox[i].Status = Queued
			m.Inbox[i].NextRetryAt = m.now
		}
		return
	}
	msg := e.Message
	m.noteSeen(msg.Key)
	m.Arrivals++
	msg.Seq, msg.Observed, msg.At = m.Arrivals, m.now, earlier(msg.At.UTC(), m.now)
	msg.Status, msg.TurnID, msg.Epoch, msg.Attempts, msg.Cost, msg.Note = Queued, "", 0, 0, 0, ""
	m.Inbox = append(m.Inbox, msg)
	m.Asleep = false
	m.line(Line{Kind: LineMessage, What: lineRetried, Key: msg.Key, Source: msg.Source, From: msg.From, Message: &msg})
}

// Dropped reports `inbox drop`: a waiting message is to have no turn.
type Dropped struct{ Key, Reason string }

// apply removes a waiting message from the inbox. The message of the active turn
// does not wait: `stop` is for that.
func (e Dropped) apply(m *machine) {
	i, there := m.messageIndex(e.Key)
	if !there || m.Inbox[i].Status == Pending || m.Inbox[i].Status == Processing {
		return
	}
	m.line(Line{Kind: LineEnded, Key: e.Key, Source: m.Inbox[i].Source, What: string(Skipped), Reason: e.Reason})
	m.Inbox = slices.Delete(m.Inbox, i, i+1)
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
	if l.Message.Operator && l.What != lineRetried {
		m.LastOperator = l.At
	}
	if _, there := m.messageIndex(l.Key); !there {
		m.Inbox = append(m.Inbox, *l.Message)
	}
}

// removeMessage removes a message from the inbox.
func (m *machine) removeMessage(key string) {
	m.Inbox = slices.DeleteFunc(m.Inbox, func(msg Message) bool { return msg.Key == key })
}
