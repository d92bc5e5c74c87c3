package state

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
