package state

import "maps"

// seen reports whether a key or digest was accepted before. It renews the time of a known one,
// because its source may bring it again. A waiting message counts as seen even after its key was
// forgotten.
func (m *machine) seen(key string) bool {
	_, known := m.Seen[key]
	if !known && m.message(key) == nil {
		return false
	}
	m.noteSeen(key)
	return true
}

// noteSeen remembers a key or digest from now on.
func (m *machine) noteSeen(key string) {
	if key == "" {
		return
	}
	m.ownSeen()[key] = m.now.Unix()
}

// ownSeen returns the map of keys for a change. Most steps do not change it, and share the map of
// the earlier state, which may be large.
func (m *machine) ownSeen() map[string]int64 {
	if !m.seenOwned {
		m.Seen, m.seenOwned = maps.Clone(m.Seen), true
	}
	if m.Seen == nil {
		m.Seen = map[string]int64{}
	}
	return m.Seen
}
