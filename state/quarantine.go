package state

import (
	"fmt"
	"time"
)

// The items in quarantine are in its folder. The state counts them (docs/design.md, "Quarantine").

// maxRejections is how many rejected items are remembered by key. A stranger who sends them must
// not make the state grow.
const maxRejections = 500

// Rejected reports that an item for this agent did not pass the gate. It is in quarantine, or
// exceeded the limits of the quarantine (Unkept). Ask is set if only a proof of its sender is
// missing, so the operator may be asked. Doubtful is set if its sender is proven but its text is
// not, so the operator is asked.
type Rejected struct {
	Key, From, Gate, Reason string
	Source                  Source
	At                      time.Time
	Digest                  string // as in Arrived
	MeshID                  string
	Unkept, Ask, Doubtful   bool
}

// apply counts the rejected item. It wakes nothing. It does not count an item whose key was
// accepted, or a copy of an accepted mail.
func (e Rejected) apply(m *machine) {
	m.acknowledgeLater(0, e.MeshID)
	if m.seen(rejectionKey(e.Key)) {
		return
	}
	l := Line{Kind: LineGate, Key: e.Key, Source: e.Source, From: e.From, Gate: e.Gate, Reason: e.Reason}
	switch {
	case m.seen(e.Key) || m.seen(e.Digest):
		l.What = WordCopy
	case e.Unkept:
		l.What = WordNotKept
	case e.Doubtful && len(m.Doubtful) < maxDoubtful && !m.seen(doubtKey(e.Digest)):
		l.What, l.Digest = WordDoubtful, e.Digest
	case e.Ask && !e.Doubtful && m.policy.Challenge && len(m.Unasked) < maxUnasked:
		l.What = WordToAsk
	}
	if l.isKept() {
		l.Number = m.Numbers.Quarantined + 1
	}
	if l.Gate == GateRestored && l.What != WordCopy {
		m.noteUnknown(l.isKept())
	}
	m.line(l)
	m.applyGateLine(l)
}

func (e Rejected) rank() (int, time.Time) { return rankArrival, e.At }

// Redacted implements [Redactable].
func (e Rejected) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

// RejectedMore reports that a gate rejected Count more items, besides those with an event each.
// They were not kept, not even their keys: a flood has one line for each gate.
type RejectedMore struct {
	Gate   string
	Source Source
	Count  int
}

func (e RejectedMore) apply(m *machine) {
	l := Line{Kind: LineGate, Source: e.Source, Gate: e.Gate, What: WordNotKept, Count: e.Count, Reason: fmt.Sprintf("%d more", e.Count)}
	m.line(l)
	m.applyGateLine(l)
}

func (RejectedMore) rank() (int, time.Time) { return rankEnd, time.Time{} }

// isKept reports whether the item of a gate line is in quarantine.
func (l Line) isKept() bool { return l.What != WordCopy && l.What != WordNotKept }

// applyGateLine counts the items of a gate line.
func (m *machine) applyGateLine(l Line) {
	m.Numbers.Quarantined = max(m.Numbers.Quarantined, l.Number)
	if l.Key == "" {
		m.Unkept += l.Count
		return
	}
	m.noteSeen(rejectionKey(l.Key))
	switch l.What {
	case WordCopy:
	case WordNotKept:
		m.Unkept++
	case WordToAsk:
		m.Unasked = append(m.Unasked, l.Key)
		m.Quarantined++
	case WordDoubtful:
		m.Doubtful = append(m.Doubtful, l.Key)
		m.noteSeen(doubtKey(l.Digest))
		m.Quarantined++
	default:
		m.Quarantined++
	}
}

// Released reports that the quarantined item under Key is let in as Event, despite the gate. Its
// payload is durable in messages/. Same identifies the same bytes that came at the same time: a
// renumbered mailbox brings them again under another key. "" identifies nothing.
type Released struct {
	Key, Reason, Same string
	Event             Event
}

// apply lets the item in as if it came now and had passed the gate. A key that was accepted before,
// or bytes that were released under another key, do not come in twice.
func (e Released) apply(m *machine) {
	if m.seen(e.Key) {
		return
	}
	if m.WasReleased(e.Same) {
		Discarded{Key: e.Key, Reason: CopyOfReleased}.apply(m)
		return
	}
	m.leaveQuarantine(Line{Kind: LineQuarantine, What: WordReleased, Key: e.Key, Reason: e.Reason, Digest: e.Same})
	m.applyAdmitted(e.Event)
}

// Redacted implements [Redactable].
func (e Released) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	e.Event = redactEvent(e.Event, redact)
	return e
}

// QuarantineHolds reports how many items are in quarantine/ now.
type QuarantineHolds struct{ Items int }

func (e QuarantineHolds) apply(m *machine) { m.Quarantined = e.Items }

func (QuarantineHolds) rank() (int, time.Time) { return rankEnd, time.Time{} }

// CopyOfReleased is the reason why a copy of a released item leaves the
// quarantine.
const CopyOfReleased = "a copy of a released item"

// WasReleased reports whether the item that same identifies was released.
func (r Reading) WasReleased(same string) bool {
	_, known := r.Seen[releaseKey(same)]
	return known
}

// releaseKey returns the key of a released item in Seen. It blocks only another release.
func releaseKey(same string) string { return "released " + same }

// Discarded reports that an item was removed from the quarantine for good.
type Discarded struct{ Key, Reason string }

// apply records the removal. The item's key may still be accepted.
func (e Discarded) apply(m *machine) {
	m.leaveQuarantine(Line{Kind: LineQuarantine, What: WordDropped, Key: e.Key, Reason: e.Reason})
}

// Redacted implements [Redactable].
func (e Discarded) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

func (m *machine) leaveQuarantine(l Line) {
	m.line(l)
	m.applyQuarantineLine(l)
}

// applyQuarantineLine counts an item that has left the quarantine.
func (m *machine) applyQuarantineLine(l Line) {
	m.Quarantined = max(0, m.Quarantined-1)
	m.forgetChallenge(l.Key)
	if l.Digest != "" {
		m.noteSeen(releaseKey(l.Digest))
	}
}

// rejectionKey returns the key of a rejected item in Seen. It differs from the item's own key,
// because otherwise a forged item could suppress the real one.
func rejectionKey(key string) string { return rejectionPrefix + key }

const rejectionPrefix = "refused "

// doubtKey returns the key in Seen of a question to the operator about a signed mail. Anybody who
// holds the mail can send it again with other fields, as often as they like.
func doubtKey(digest string) string { return "doubt " + digest }

// KnowsRejected reports whether a rejected item is known: it was rejected before under this key, it
// was let in since, or it is a copy of an accepted mail. A digest of "" matches nothing.
func (s State) KnowsRejected(key, digest string) bool {
	_, refused := s.Seen[rejectionKey(key)]
	_, copied := s.Seen[digest]
	return refused || copied && digest != "" || s.Accepts(key)
}

// Accepts reports whether key was accepted, as a message or as anything else.
func (s State) Accepts(key string) bool {
	_, known := s.Seen[key]
	_, waits := s.Message(key)
	return known || waits
}

// Uncalled counts the operator's mails that came to the agent's address and called no agent. They
// cause nothing, and other agents do not take them either.
type Uncalled struct {
	Count int       `json:"count"`
	Last  time.Time `json:"last"`
}

// CalledNobody reports such mails. The last one came at At.
type CalledNobody struct {
	Count int
	At    time.Time
}

func (e CalledNobody) apply(m *machine) {
	m.Uncalled.Count += e.Count
	m.Uncalled.Last = latest(m.Uncalled.Last, happened(e.At, m.now))
}

func (CalledNobody) rank() (int, time.Time) { return rankEnd, time.Time{} }
