package state

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// How long things are remembered, and how many are forgotten in one step.
const (
	seenFor     = 14 * 24 * time.Hour // keys and digests
	pruneAtOnce = 100
)

// prune forgets by age, a few at a time.
func (m *machine) prune() {
	hourAgo := m.now.Add(-time.Hour)
	m.Acks = after(m.Acks, hourAgo)
	m.Quiets = after(m.Quiets, hourAgo)
	m.Accepted = after(m.Accepted, hourAgo)
	m.Alarms = after(m.Alarms, hourAgo)
	m.Relays = relaysAfter(m.Relays, hourAgo)

	// A renumbered mailbox is read anew from the day before the last complete
	// look, so what was accepted around then must still be known, however long
	// the agent was off.
	horizon := m.now
	if complete := m.Cursor.Complete; !complete.IsZero() && complete.Before(horizon) {
		horizon = complete
	}
	oldest := horizon.Add(-seenFor).Unix()
	var old []string
	for key, at := range m.Seen {
		if at < oldest {
			old = append(old, key)
		}
	}
	m.forgetRejections()
	slices.Sort(old) // which ones go must not hang on the order of a map
	for _, key := range old[:min(len(old), pruneAtOnce)] {
		delete(m.Seen, key)
	}
}

// after keeps the times after t.
func after(times []time.Time, t time.Time) []time.Time {
	kept := times[:0]
	for _, u := range times {
		if u.After(t) {
			kept = append(kept, u)
		}
	}
	return kept
}

// relaysAfter keeps those later than t.
func relaysAfter(relays []Relaying, t time.Time) []Relaying {
	return slices.DeleteFunc(relays, func(r Relaying) bool { return !r.At.After(t) })
}

// forgetRejections keeps the youngest refusals only.
func (m *machine) forgetRejections() {
	var keys []string
	for key := range m.Seen {
		if strings.HasPrefix(key, rejectionPrefix) {
			keys = append(keys, key)
		}
	}
	if len(keys) <= mostRejections {
		return
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(m.Seen[a], m.Seen[b]), cmp.Compare(a, b))
	})
	for _, key := range keys[:len(keys)-mostRejections] {
		delete(m.Seen, key)
	}
}

// Pruned: the folders hold nothing older than is kept.
type Pruned struct{}

func (Pruned) apply(m *machine) { m.Pruned = m.now }
