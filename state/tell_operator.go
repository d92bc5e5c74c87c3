package state

import "slices"

// tellOperator sends the operator a notice by the best route: a mail, unless sending mail fails, or
// else a request to a peer to mail the operator (docs/design.md, "Credentials";
// docs/decisions/0013-operator-alerts.md). If no route is open the notice waits in the outbox. tellOperator returns
// the effect's id, or "" if the operator cannot be told at all.
func (m *machine) tellOperator(e Effect) (id string) {
	w, ok := m.bestRoute(e.Tried)
	if !ok {
		return ""
	}
	e.ID, e.File, e.Sum = "", "", ""
	e.Kind, e.Channel, e.To = w.kind, w.channel, w.to
	return m.queue(e)
}

// route is a way for a notice to reach the operator.
type route struct {
	kind    EffectKind
	channel Channel
	to      string
}

// bestRoute returns the best route that avoids the recipients in tried: the first whose credential
// works, or else the first of all. It returns false without any route.
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
	for _, other := range m.policy.Others {
		if m.policy.HasMail && !slices.Contains(tried, other) {
			routes = append(routes, route{Notice, ByMail, other})
		}
	}
	if !m.policy.Notices || len(routes) == 0 {
		return route{}, false
	}
	open := slices.IndexFunc(routes, func(w route) bool { return !m.Fails(w.channel.credential()) })
	return routes[max(open, 0)], true
}

// peers returns the agents that may be asked to mail the operator, never ourselves.
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

// canReroute reports whether the effect is a notice to the operator that may take
// another route.
func (e Effect) canReroute() bool {
	return e.Kind == Relay || e.Kind == Notice && e.Channel == ByMail && (e.Credential != "" || len(e.Tells) > 0)
}

// reroute moves notices that were never sent to a better route, if one has opened.
func (m *machine) reroute() {
	for _, row := range slices.Clone(m.Outbox) {
		if !row.canReroute() || !row.neverSent() {
			continue
		}
		w, ok := m.bestRoute(row.Tried)
		if !ok || w.channel == row.Channel || m.Fails(w.channel.credential()) {
			continue
		}
		i, _ := m.effectIndex(row.ID)
		m.endEffect(i, withdrawn, "another route is open")
		m.renotify(row.ID, m.tellOperator(row.unrouted()))
	}
}

// unrouted returns a notice without its route.
func (e Effect) unrouted() Effect {
	return Effect{Text: e.Text, Thread: e.Thread, Credential: e.Credential, Tried: e.Tried, Tells: e.Tells}
}

// tryNextRoute sends a notice by the next route after its recipient rejected it. It returns false
// without a next route.
func (m *machine) tryNextRoute(row Effect) (ok bool) {
	next := row.unrouted()
	next.Tried = append(slices.Clone(row.Tried), row.To)
	if _, ok := m.bestRoute(next.Tried); !ok {
		return false
	}
	i, _ := m.effectIndex(row.ID)
	m.endEffect(i, "refused", row.Reason)
	m.renotify(row.ID, m.tellOperator(next))
	return true
}

// Online reports the handles that the mesh's registry shows as online. The registry is asked
// because a relay request waits.
type Online struct{ Handles []string }

// apply moves relay requests from offline peers to a peer that is online.
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
		at, _ := m.effectIndex(row.ID)
		m.endEffect(at, withdrawn, "@"+row.To+" is not online")
		m.renotify(row.ID, m.queue(there))
	}
}
