package state

import (
	"slices"
	"time"
)

// longestDeferral is the span of a message's NextRetryAt.
const longestDeferral = time.Hour

// Arrived: a message passed the gate and its payload is durable.
type Arrived struct {
	Message Message
	Digest  string // of Message-ID and header; "" = none
	UID     uint32 // mail: to be marked \Seen
	MeshID  string // mesh: to be acknowledged
	Thread  Thread // mail: the conversation it belongs to
}

// apply queues a message and lets it work on the phase. A copy of what was
// accepted before, under the same key or the same digest, changes nothing but
// is still acknowledged to its server.
func (e Arrived) apply(m *machine) {
	msg := e.Message
	m.owe(e.UID, e.MeshID)
	if m.seen(msg.Key) || m.seen(e.Digest) {
		m.remember(msg.Key)
		m.line(Line{Kind: LineDuplicate, Key: msg.Key, Source: msg.Source, From: msg.From})
		return
	}
	m.remember(msg.Key)
	m.remember(e.Digest)

	m.Arrivals++
	msg.Seq = m.Arrivals
	msg.Observed = m.now
	msg.At = earlier(msg.At.UTC(), m.now)
	msg.Status = Queued
	m.deferAboveRate(&msg)
	m.Inbox = append(m.Inbox, msg)
	m.Asleep, m.SleepUntil = false, time.Time{}
	m.line(Line{Kind: LineMessage, Key: msg.Key, Source: msg.Source, From: msg.From, Message: &msg, Digest: e.Digest})
	if msg.Source == Mesh {
		m.line(Line{Kind: LineEdge, What: "enqueue", From: msg.From, To: m.Agent, Request: msg.Correlation, Key: msg.Key})
	}

	if !msg.Operator {
		m.wake(string(msg.Source)+" from "+msg.From, Thread{}, true)
		return
	}
	m.LastOperator = m.now
	if msg.Source == Mail {
		m.Thread = e.Thread
	}
	if m.Turn.Status == HeadSuspended {
		m.miss(missedSuperseded)
	}
	switch m.Phase {
	case IDLE:
		m.wake("operator message", e.Thread, msg.Source == Mail)
	case PREP:
		m.enter(ACTIVE, "operator message")
	case ACTIVE:
		// The timer restarts with LastOperator.
	}
}

// deferAboveRate holds an operator's message back when too many came within
// the hour: deferred, never refused (DESIGN 6).
func (m *machine) deferAboveRate(msg *Message) {
	if !msg.Operator || msg.Source != Mail || m.policy.Rate <= 0 {
		return
	}
	m.Accepted = append(m.Accepted, m.now)
	over := len(m.Accepted) - m.policy.Rate
	if over <= 0 {
		return
	}
	msg.Status = Deferred
	msg.NextRetryAt = m.Accepted[over-1].Add(time.Hour)
}

// Noted: an item that needs neither turn nor gate: an echo of ourselves, a
// report nobody waits for. It is acknowledged and told in the history. Answer,
// where there is one, is sent back.
type Noted struct {
	Key, Kind, From, Reason string
	Source                  Source
	MeshID                  string
	Answer                  *Effect
}

// apply acknowledges what needs nothing else.
func (e Noted) apply(m *machine) {
	m.owe(0, e.MeshID)
	if m.seen(e.Key) {
		return
	}
	m.remember(e.Key)
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

// Nudged: a doorbell rang.
type Nudged struct {
	Key, From, Reason string
	At                time.Time
	MeshID            string // held by the mesh until acknowledged
}

// apply rings: it wakes an idle agent, and leaves no row.
func (e Nudged) apply(m *machine) {
	m.owe(0, e.MeshID)
	if m.TookNudge(e.Key) || m.seen(e.Key) {
		return
	}
	source := Nudge
	if e.MeshID != "" {
		source = Mesh
	}
	m.tookNudge(source, e.Key)
	m.SleepUntil = time.Time{}
	m.line(Line{Kind: LineNudge, Key: e.Key, Source: source, From: e.From, Reason: e.Reason})
	m.wake(nudgeReason(e), Thread{}, true)
}

// Redacted implements [Redactable].
func (e Nudged) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

// tookNudge remembers a nudge: a file's until the file is gone, one held by the
// mesh like any message of it.
func (m *machine) tookNudge(source Source, key string) {
	if source == Mesh {
		m.remember(key)
		return
	}
	m.Nudges = append(m.Nudges, key)
}

func nudgeReason(e Nudged) string {
	reason := "nudge"
	if e.From != "" {
		reason += " from " + e.From
	}
	if e.Reason != "" {
		reason += ": " + e.Reason
	}
	return reason
}

// NudgeFiles: the keys of all files in nudges/ now, so that the keys of those
// that are gone can be forgotten.
type NudgeFiles struct{ Keys []string }

// apply drops the keys of nudge files that are gone, since they can
// never be seen again.
func (e NudgeFiles) apply(m *machine) {
	m.Nudges = slices.DeleteFunc(m.Nudges, func(key string) bool { return !slices.Contains(e.Keys, key) })
}

// owe notes that the server is to be told that an item was read. It is told
// after the commit that made the item durable.
func (m *machine) owe(uid uint32, meshID string) {
	if uid != 0 {
		if m.ToFlag.Mailbox != m.Cursor.Mailbox || m.ToFlag.Validity != m.Cursor.Validity {
			m.ToFlag = ToFlag{Mailbox: m.Cursor.Mailbox, Validity: m.Cursor.Validity}
		}
		if !slices.Contains(m.ToFlag.UIDs, uid) {
			m.ToFlag.UIDs = append(m.ToFlag.UIDs, uid)
		}
	}
	if meshID != "" && !slices.Contains(m.ToAck, meshID) {
		m.ToAck = append(m.ToAck, meshID)
	}
}

// Flagged reports that the mail server was asked to mark mails \Seen.
type Flagged struct {
	Mailbox  string
	Validity uint32
	UIDs     []uint32
}

func (e Flagged) apply(m *machine) {
	if e.Mailbox != m.ToFlag.Mailbox || e.Validity != m.ToFlag.Validity {
		return
	}
	m.ToFlag.UIDs = slices.DeleteFunc(m.ToFlag.UIDs, func(uid uint32) bool { return slices.Contains(e.UIDs, uid) })
}

// MeshAcked reports that the mesh was told which items were read.
type MeshAcked struct{ IDs []string }

func (e MeshAcked) apply(m *machine) {
	m.ToAck = slices.DeleteFunc(m.ToAck, func(id string) bool { return slices.Contains(e.IDs, id) })
}

// seen says whether a key or digest was accepted before. One that its source
// brings again is remembered anew, and so kept while the source may do so; a
// message may wait for longer than keys are remembered.
func (m *machine) seen(key string) bool {
	_, known := m.Seen[key]
	if _, waiting := m.message(key); !known && !waiting {
		return false
	}
	m.remember(key)
	return true
}

// remember keeps a key or digest, from now on.
func (m *machine) remember(key string) {
	if key == "" {
		return
	}
	if m.Seen == nil {
		m.Seen = map[string]int64{}
	}
	m.Seen[key] = m.now.Unix()
}
