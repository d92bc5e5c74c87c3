package state

import (
	"cmp"
	"slices"
	"strings"
)

// What is in quarantine lives in its folder; here it is counted (DESIGN 6).

// mostRefusals is how many refused items are remembered by their keys: whoever
// sends what is refused must not make the state grow.
const mostRefusals = 500

// What a gate line tells beside the gate, and a quarantine line of an item.
const (
	lineUnkept   = "not kept"
	lineCopy     = "a copy"
	lineAsk      = "to be asked about"
	lineReleased = "released"
	lineDropped  = "dropped"
)

// refused counts what the gate kept out; it wakes nobody. An item under a key
// that was accepted, or a copy of a mail that was, is no news.
func (m *machine) refused(e Refused) {
	m.owe(0, e.MeshID)
	if m.seen(refusal(e.Key)) {
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

// redoGate counts what a gate line tells of.
func (m *machine) redoGate(l Line) {
	m.remember(refusal(l.Key))
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

// released lets an item of the quarantine in, as if it came now and had passed
// the gate. A key that was accepted stays taken, and what was released under
// another key is, too, so that nothing comes in twice.
func (m *machine) released(e Released) {
	if m.seen(e.Key) {
		return
	}
	if m.WasReleased(e.Same) {
		m.discarded(Discarded{Key: e.Key, Reason: CopyOfReleased})
		return
	}
	m.left(Line{Kind: LineQuarantine, What: lineReleased, Key: e.Key, Reason: e.Reason, Digest: e.Same})
	m.apply(e.Event)
}

// CopyOfReleased is why a copy of a released item leaves the quarantine.
const CopyOfReleased = "a copy of what was released"

// WasReleased says whether the item that same recognises was released.
func (s State) WasReleased(same string) bool {
	_, known := s.Seen[release(same)]
	return known
}

// release is what is remembered of a released item beside its key. It keeps out
// no more than another release.
func release(same string) string { return "released " + same }

// discarded tells that an item is gone for good. Its key may still be accepted.
func (m *machine) discarded(e Discarded) {
	m.left(Line{Kind: LineQuarantine, What: lineDropped, Key: e.Key, Reason: e.Reason})
}

func (m *machine) left(l Line) {
	m.line(l)
	m.redoQuarantine(l)
}

// redoQuarantine does what a quarantine line tells: an item has left.
func (m *machine) redoQuarantine(l Line) {
	m.Quarantined = max(0, m.Quarantined-1)
	m.settled(l.Key)
	if l.Digest != "" {
		m.remember(release(l.Digest))
	}
}

// refusal is what is remembered of a refused item: never its key, by which a
// forged item could suppress the real one.
func refusal(key string) string { return refusalPrefix + key }

const refusalPrefix = "refused "

// KnowsRefused says whether an item that the gate refuses is known: it was
// refused before under this key, it was let in meanwhile, or it is a copy of a
// mail that was. A digest of "" is none.
func (s State) KnowsRefused(key, digest string) bool {
	_, refused := s.Seen[refusal(key)]
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

// forgetRefusals keeps the youngest refusals only.
func (m *machine) forgetRefusals() {
	var keys []string
	for key := range m.Seen {
		if strings.HasPrefix(key, refusalPrefix) {
			keys = append(keys, key)
		}
	}
	if len(keys) <= mostRefusals {
		return
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(m.Seen[a], m.Seen[b]), cmp.Compare(a, b))
	})
	for _, key := range keys[:len(keys)-mostRefusals] {
		delete(m.Seen, key)
	}
}
