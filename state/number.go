package state

import (
	"maps"
	"slices"
)

// Short numbers by which a person names a message or an effect. A number never changes its meaning:
// each counter only rises, and a history line has each number
// (docs/decisions/0020-ids-and-numbers.md).

// Numbers are the highest numbers given so far. Arrivals counts those of messages in the inbox.
type Numbers struct {
	Quarantined uint64 `json:"quarantined,omitempty"` // of items in quarantine
	Unfetched   uint64 `json:"unfetched,omitempty"`   // of mails that are not fetched yet
	Effects     uint64 `json:"effects,omitempty"`     // of rows of the outbox, and of mails that came back
	HookCalls   uint64 `json:"hook_calls,omitempty"`  // of rows for hooks
}

// unfetchedKeys returns the keys of the mails that are listed but not in the inbox yet: failing
// mails, and large mails on their way.
func (s State) unfetchedKeys() []string {
	var keys []string
	for _, f := range s.FailingMails() {
		keys = append(keys, f.Key)
	}
	return append(keys, s.LargeMails()...)
}

// IsUnfetched reports whether the mail with this key is listed but not in the inbox yet.
func (s State) IsUnfetched(key string) bool { return slices.Contains(s.unfetchedKeys(), key) }

// numberUnfetched gives a number to each mail that is not fetched yet and lacks one. It forgets the
// numbers of other mails, because history lines have them.
func (m *machine) numberUnfetched() {
	keys := m.unfetchedKeys()
	for _, key := range keys {
		if m.Unfetched[key] > 0 {
			continue
		}
		l := Line{Kind: LineNumber, Key: key, Source: Mail, Number: m.Numbers.Unfetched + 1}
		m.line(l)
		m.applyNumberLine(l)
	}
	if len(m.Unfetched) > len(keys) {
		maps.DeleteFunc(m.Unfetched, func(key string, _ uint64) bool { return !slices.Contains(keys, key) })
	}
}

// applyNumberLine gives a mail that is not fetched yet its number.
func (m *machine) applyNumberLine(l Line) {
	m.Numbers.Unfetched = max(m.Numbers.Unfetched, l.Number)
	if m.Unfetched == nil {
		m.Unfetched = map[string]uint64{}
	}
	m.Unfetched[l.Key] = l.Number
}
