package state

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// How long keys and digests are remembered, and how many are forgotten per step.
const (
	seenFor     = 14 * 24 * time.Hour // keys and digests
	pruneAtOnce = 100
)

// prune forgets old entries, a few at a time.
func (m *machine) prune() {
	hourAgo := m.now.Add(-time.Hour)
	m.Acks = after(m.Acks, hourAgo)
	m.Quiets = after(m.Quiets, hourAgo)
	m.Accepted = after(m.Accepted, hourAgo)
	m.Programs = after(m.Programs, hourAgo)
	m.Alarms = after(m.Alarms, hourAgo)
	m.forgetPosts()
	m.OperatorAsked = slices.DeleteFunc(m.OperatorAsked, func(a AskedOperator) bool { return !a.At.After(hourAgo) })
	m.Relays = relaysAfter(m.Relays, hourAgo)
	m.forgetLost()
	m.Rung = slices.DeleteFunc(m.Rung, func(r Ringing) bool { return !r.At.After(hourAgo) })

	// A renumbered mailbox is read again from the day before it was last read to its end. Items
	// accepted around that day must still be known, however long the agent was off.
	horizon := m.now
	if complete := m.Cursor.Complete; !complete.IsZero() && complete.Before(horizon) {
		horizon = complete
	}
	oldest := horizon.Add(-seenFor).Unix()
	var old, rejections []string
	for key, at := range m.Seen {
		if at < oldest {
			old = append(old, key)
		}
		if strings.HasPrefix(key, rejectionPrefix) {
			rejections = append(rejections, key)
		}
	}
	m.forgetRejections(rejections)
	slices.Sort(old) // Step is pure: the order of a map must not decide
	for _, key := range old[:min(len(old), pruneAtOnce)] {
		delete(m.ownSeen(), key)
	}
}

// after returns the times later than t. It reuses the slice.
func after(times []time.Time, t time.Time) []time.Time {
	kept := times[:0]
	for _, u := range times {
		if u.After(t) {
			kept = append(kept, u)
		}
	}
	return kept
}

// relaysAfter returns the relays later than t. It reuses the slice.
func relaysAfter(relays []Relaying, t time.Time) []Relaying {
	return slices.DeleteFunc(relays, func(r Relaying) bool { return !r.At.After(t) })
}

// forgetRejections keeps only the newest rejections. keys are all of them.
func (m *machine) forgetRejections(keys []string) {
	if len(keys) <= maxRejections {
		return
	}
	slices.SortFunc(keys, func(a, b string) int {
		return cmp.Or(cmp.Compare(m.Seen[a], m.Seen[b]), cmp.Compare(a, b))
	})
	for _, key := range keys[:len(keys)-maxRejections] {
		delete(m.ownSeen(), key)
	}
}

// Pruned reports that everything older than Before was removed from the folders.
type Pruned struct{ Before time.Time }

func (e Pruned) apply(m *machine) {
	m.Pruned = m.now
	for i := 0; i < len(m.Undelivered); {
		if !m.Undelivered[i].GivenUp.Before(e.Before) {
			i++
			continue
		}
		m.endUndelivered(i, undeliveredForgotten, "older than is kept")
	}
}
