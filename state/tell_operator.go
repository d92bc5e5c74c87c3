package state

import "slices"

// tellOperator tells the operator by the way that is open (DESIGN 10): a mail, unless
// sending mail is what fails, else a peer is asked to mail him; see
// docs/decisions/0013. Where no way is open it waits in the outbox for one. The
// result is the effect's id, "" where there is none.
func (m *machine) tellOperator(e Effect) (id string) {
	w, ok := m.bestRoute(e.Tried)
	if !ok {
		return ""
	}
	e.ID, e.File = "", ""
	e.Kind, e.Channel, e.To = w.kind, w.channel, w.to
	return m.queue(e)
}

// route is how a word goes to the operator.
type route struct {
	kind    EffectKind
	channel Channel
	to      string
}

// bestRoute finds the best way beside those to whom it was tried in vain.
func (m *machine) bestRoute(tried []string) (route, bool) {
	var routes []route
	if m.policy.HasMail && !slices.Contains(tried, m.policy.Operator) {
		routes = append(routes, route{Notice, ByMail, m.policy.Operator})
	}
	for _, peer := range m.peers() {
		if !slices.Contains(tried, peer) {
			routes = append(routes, route{Relay, ByMesh, peer})
		}
	}
	if !m.policy.Notices || len(routes) == 0 {
		return route{}, false
	}
	open := slices.IndexFunc(routes, func(w route) bool { return !m.Fails(w.channel.credential()) })
	return routes[max(open, 0)], true
}

// peers are those who may be asked to mail the operator, never ourselves.
func (m *machine) peers() []string {
	if !m.policy.HasMesh {
		return nil
	}
	var peers []string
	for _, p := range append([]string{m.policy.Keymaster}, m.policy.Peers...) {
		if p != "" && p != m.Agent && !slices.Contains(peers, p) {
			peers = append(peers, p)
		}
	}
	return peers
}

// isWord says whether the effect is a word to the operator that may go another
// way.
func (e Effect) isWord() bool {
	return e.Kind == Relay || e.Kind == Notice && e.Channel == ByMail && e.Credential != ""
}

// reroute takes a word that nobody has seen yet to the best way, where that is
// another by now.
func (m *machine) reroute() {
	for _, row := range slices.Clone(m.Outbox) {
		if !row.isWord() || !row.neverSent() {
			continue
		}
		w, ok := m.bestRoute(row.Tried)
		if !ok || w.channel == row.Channel || m.Fails(w.channel.credential()) {
			continue
		}
		i, _ := m.row(row.ID)
		m.endEffect(i, withdrawn, "another way is open")
		m.renotify(row.ID, m.tellOperator(row.unrouted()))
	}
}

// unrouted is a word as it was before it had a way.
func (e Effect) unrouted() Effect {
	return Effect{Text: e.Text, Thread: e.Thread, Credential: e.Credential, Tried: e.Tried}
}

// tryNextRoute sends a word on to the next who may be asked, where the one it went
// to is refused. ok is false when there is none.
func (m *machine) tryNextRoute(row Effect) (ok bool) {
	next := row.unrouted()
	next.Tried = append(slices.Clone(row.Tried), row.To)
	if _, ok := m.bestRoute(next.Tried); !ok {
		return false
	}
	i, _ := m.row(row.ID)
	m.endEffect(i, "refused", row.Reason)
	m.renotify(row.ID, m.tellOperator(next))
	return true
}

// Online: the handles that the mesh's registry shows, asked for since a request
// to relay waits.
type Online struct{ Handles []string }

// apply takes requests to relay from peers who are away to one who is there.
func (e Online) apply(m *machine) {
	for _, row := range slices.Clone(m.Outbox) {
		if row.Kind != Relay || !row.neverSent() || slices.Contains(e.Handles, row.To) {
			continue
		}
		i := slices.IndexFunc(m.peers(), func(p string) bool {
			return slices.Contains(e.Handles, p) && !slices.Contains(row.Tried, p)
		})
		if i < 0 {
			continue
		}
		there := row.unrouted()
		there.Kind, there.Channel, there.To = Relay, ByMesh, m.peers()[i]
		at, _ := m.row(row.ID)
		m.endEffect(at, withdrawn, "@"+row.To+" is not online")
		m.renotify(row.ID, m.queue(there))
	}
}
