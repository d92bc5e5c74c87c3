package state

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
)

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
		m.endEffect(i, WordWithdrawn, "another route is open")
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
	m.endEffect(i, WordRefused, row.Reason)
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
		m.endEffect(at, WordWithdrawn, "@"+row.To+" is not online")
		m.renotify(row.ID, m.queue(there))
	}
}

// Relaying is a relay request of a peer that we carried out.
type Relaying struct {
	From string    `json:"from"`
	At   time.Time `json:"at"`
}

// maxRelay bounds the relayed text of a peer, in bytes.
const maxRelay = 4 << 10

// RelayAsked reports that a listed peer, proven by its token, asks us to mail Text
// to our operator.
type RelayAsked struct {
	Key, From, Text, MeshID string
}

// apply mails the peer's text to our operator, as data (docs/design.md,
// "Credentials"). It causes no turn and wakes nothing.
func (e RelayAsked) apply(m *machine) {
	m.acknowledgeLater(0, e.MeshID)
	if m.seen(e.Key) {
		return
	}
	m.noteSeen(e.Key)
	text := relayed(e.Text)
	why := m.whyNotRelayed(e.From, text)
	if why != "" {
		m.line(Line{Kind: LineNote, Key: e.Key, Source: Mesh, From: e.From, What: WordRelay, Reason: "not passed on: " + why})
		return
	}
	m.Relays = append(m.Relays, Relaying{From: e.From, At: m.now})
	m.line(Line{Kind: LineNote, Key: e.Key, Source: Mesh, From: e.From, What: WordRelay, Reason: "passed on to the operator"})
	m.queue(Effect{
		Kind: Relayed, Channel: ByMail, To: m.policy.Operator,
		// Without a callsign, so that an answer is not mistaken for mail to the peer.
		Thread: m.subject("message from " + e.From),
		Text: fmt.Sprintf("The agent %s asks me to pass this on to you. The text is that agent's, not mine, and I have not acted on it. A reply to this mail goes to me.\n\n%s",
			e.From, quote(text)),
	})
}

// Redacted implements [Redactable].
func (e RelayAsked) Redacted(redact func(string) string) Event {
	e.Text = redact(e.Text)
	return e
}

// whyNotRelayed returns why a request is refused, or "".
func (m *machine) whyNotRelayed(from, text string) string {
	lately := 0
	for _, r := range m.Relays {
		if r.From == from {
			lately++
		}
	}
	switch {
	case text == "":
		return "it is empty"
	case !m.policy.HasMail:
		return "no mail is configured"
	case !m.policy.Notices:
		return "notices are switched off"
	case lately >= mailsAnHour:
		return fmt.Sprintf("more than %d within an hour", mailsAnHour)
	}
	return ""
}

// relayed returns a peer's text, cut, and without characters that could play tricks in a mail.
func relayed(text string) string {
	text = strings.ToValidUTF8(text[:min(len(text), maxRelay)], "")
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return -1
	}, text))
}

// quote marks each line as quoted.
func quote(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimRight("> "+line, " \t\n") + "\n")
	}
	return b.String()
}
