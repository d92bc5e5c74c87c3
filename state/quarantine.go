package state

import (
	"time"
)

// What is in quarantine lives in its folder; here it is counted (DESIGN 6).

// mostRejections is how many refused items are remembered by their keys: whoever
// sends what is refused must not make the state grow.
const mostRejections = 500

// What a gate line tells beside the gate, and a quarantine line of an item.
const (
	lineUnkept    = "not kept"
	lineCopy      = "a copy"
	lineAsk       = "to be asked about"
	lineReleased  = "released"
	lineDiscarded = "dropped"
)

// Refused: an item for this agent did not pass the gate and is in quarantine,
// or, Unkept, was beyond its limits. Ask: nothing but a proof of its sender is
// missing, so that the operator may be asked.
type Refused struct {
	Key, From, Gate, Reason string
	Source                  Source
	At                      time.Time
	Digest                  string // as of Arrived
	MeshID                  string
	Unkept, Ask             bool
}

// apply counts what the gate kept out; it wakes nobody. An item under a key
// that was accepted, or a copy of a mail that was, is no news.
func (e Refused) apply(m *machine) {
	m.owe(0, e.MeshID)
	if m.seen(rejectionKey(e.Key)) {
		return
	}
	l := Line{Kind: LineGate, Key: e.Key, Source: e.Source, From: e.From, Gate: e.Gate, Reason: e.Reason}
	switch {
	case m.seen(e.Key) || m.seen(e.Digest):
		l.What = lineCopy
	case e.Unkept:
		l.What = lineUnkept
	case e.Ask && m.policy.Challenge && len(m.Unasked) < mostUnasked:
		l.What = lineAsk
	}
	m.line(l)
	m.redoGate(l)
}

// Redacted implements [Redactable].
func (e Refused) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

// redoGate counts what a gate line tells of.
func (m *machine) redoGate(l Line) {
	m.remember(rejectionKey(l.Key))
	switch l.What {
	case lineCopy:
	case lineUnkept:
		m.Unkept++
	case lineAsk:
		m.Unasked = append(m.Unasked, l.Key)
		m.Quarantined++
	default:
		m.Quarantined++
	}
}

// Released: the item of the quarantine under Key is let in, whatever the gate
// said of it, as Event. Its payload is durable in messages/. Same recognises the
// same bytes that came at the same time, as a renumbered mailbox brings them
// again under another key; "" is none.
type Released struct {
	Key, Reason, Same string
	Event             Event
}

// apply lets an item of the quarantine in, as if it came now and had passed
// the gate. A key that was accepted stays taken, and what was released under
// another key is, too, so that nothing comes in twice.
func (e Released) apply(m *machine) {
	if m.seen(e.Key) {
		return
	}
	if m.WasReleased(e.Same) {
		Discarded{Key: e.Key, Reason: CopyOfReleased}.apply(m)
		return
	}
	m.leaveQuarantine(Line{Kind: LineQuarantine, What: lineReleased, Key: e.Key, Reason: e.Reason, Digest: e.Same})
	e.Event.apply(m)
}

// Redacted implements [Redactable].
func (e Released) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	e.Event = redactEvent(e.Event, redact)
	return e
}

// QuarantineHolds: so many items are in quarantine/ now.
type QuarantineHolds struct{ Items int }

func (e QuarantineHolds) apply(m *machine) { m.Quarantined = e.Items }

// CopyOfReleased is why a copy of a released item leaves the quarantine.
const CopyOfReleased = "a copy of what was released"

// WasReleased says whether the item that same recognises was released.
func (s State) WasReleased(same string) bool {
	_, known := s.Seen[releaseKey(same)]
	return known
}

// releaseKey is what is remembered of a released item beside its key. It keeps out
// no more than another release.
func releaseKey(same string) string { return "released " + same }

// Discarded: an item was taken out of the quarantine for good.
type Discarded struct{ Key, Reason string }

// apply tells that an item is gone for good. Its key may still be accepted.
func (e Discarded) apply(m *machine) {
	m.leaveQuarantine(Line{Kind: LineQuarantine, What: lineDiscarded, Key: e.Key, Reason: e.Reason})
}

// Redacted implements [Redactable].
func (e Discarded) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

func (m *machine) leaveQuarantine(l Line) {
	m.line(l)
	m.redoQuarantine(l)
}

// redoQuarantine does what a quarantine line tells: an item has left.
func (m *machine) redoQuarantine(l Line) {
	m.Quarantined = max(0, m.Quarantined-1)
	m.forgetChallenge(l.Key)
	if l.Digest != "" {
		m.remember(releaseKey(l.Digest))
	}
}

// rejectionKey is what is remembered of a refused item: never its key, by which a
// forged item could suppress the real one.
func rejectionKey(key string) string { return rejectionPrefix + key }

const rejectionPrefix = "refused "

// KnowsRefused says whether an item that the gate refuses is known: it was
// refused before under this key, it was let in meanwhile, or it is a copy of a
// mail that was. A digest of "" is none.
func (s State) KnowsRefused(key, digest string) bool {
	_, refused := s.Seen[rejectionKey(key)]
	_, copied := s.Seen[digest]
	return refused || copied && digest != "" || s.Accepts(key)
}

// Accepts says whether key was accepted: as a message, or as whatever else
// needs no more.
func (s State) Accepts(key string) bool {
	_, known := s.Seen[key]
	_, waits := s.Find(key)
	return known || waits
}
