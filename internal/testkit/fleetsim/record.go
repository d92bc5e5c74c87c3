package fleetsim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/mail"
	"regexp"
	"slices"
	"strings"
	"time"

	"agentstateloop/internal/testkit/memcarrier"
	"agentstateloop/mesh"
	"agentstateloop/turn"
)

// record has the observations of outsiders. World.mu guards it.
type record struct {
	world *World

	asked  []*message
	mails  map[string]*outgoing // by Message-ID
	posts  map[string]*outgoing // messages to the peer, by id
	spans  []span
	turnOf map[string]string // the turn of each marker
	notes  []string          // texts that agents have sent to the peer
}

// message is one that came in: a mail of the operator, or a message of the peer.
type message struct {
	marker string
	id     string // Message-ID, or the correlation id
	byMail bool
	at     time.Duration
}

// outgoing is a message that left.
type outgoing struct {
	id, answers string
	copies      int
	text        string
}

// mailIn delivers a mail of the operator.
func (w *World) mailIn() {
	w.mu.Lock()
	m := &message{marker: fmt.Sprintf("M%03d", len(w.record.asked)), byMail: true, at: w.now()}
	m.id = m.marker + "@example.com"
	w.record.asked = append(w.record.asked, m)
	at := w.wall()
	w.mu.Unlock()
	raw := fmt.Sprintf("From: %s\r\nTo: %s\r\nSubject: @%s about %s\r\nDate: %s\r\nMessage-ID: <%s>\r\n\r\n%s, please\r\n",
		operator, address, handle, m.marker, at.Format(time.RFC1123Z), m.id, m.marker)
	if _, err := w.mail.Append([]byte(raw), at); err != nil {
		w.violate("simulator: %v", err)
	}
	w.logf("%s comes by mail", m.marker)
}

// messageIn delivers a question of the peer.
func (w *World) messageIn() {
	w.mu.Lock()
	m := &message{marker: fmt.Sprintf("P%03d", len(w.record.asked)), at: w.now()}
	m.id = "call-" + m.marker
	w.record.asked = append(w.record.asked, m)
	at := w.wall()
	w.mu.Unlock()
	body, err := json.Marshal(map[string]any{"id": "id-" + m.marker, "from": peer, "to": handle, "kind": "ask", "message": m.marker + ", please", "correlation_id": m.id})
	if err == nil {
		_, err = w.mesh.Put(memcarrier.Letter{To: handle, From: peer, ID: "id-" + m.marker, At: at, Body: body, Proven: true, Once: true})
	}
	if err != nil {
		w.violate("simulator: %v", err)
	}
	w.logf("%s comes by mesh", m.marker)
}

var marker = regexp.MustCompile(`\b[MP]\d{3}\b`)

// prompted records an attempt, and returns the marker of its message.
func (r *record) prompted(p *process, at turn.Attempt) string {
	all := marker.FindAllString(string(at.Prompt), -1)
	if len(all) == 0 {
		r.world.violate("the prompt of %s.%d has no message", at.TurnID, at.Epoch)
		return ""
	}
	m := all[len(all)-1]
	r.world.mu.Lock()
	if r.turnOf == nil {
		r.turnOf = map[string]string{}
	}
	before := r.turnOf[m]
	if before == "" {
		r.turnOf[m] = at.TurnID
	}
	r.world.mu.Unlock()
	if before != "" && before != at.TurnID {
		r.world.violate("%s had two turns, %s and %s", m, before, at.TurnID)
	}
	return m
}

// sent is called by the mail server after the final dot.
func (w *World) sent(conn net.Conn, raw []byte) error {
	l, ok := conn.(link)
	if !ok {
		w.violate("simulator: a mail came over a %T", conn)
		return nil
	}
	m, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		w.violate("%s sent a mail that cannot be read: %v", l.process.name, err)
		return nil
	}
	body, _ := io.ReadAll(m.Body)
	id := strings.Trim(m.Header.Get("Message-ID"), "<>")
	w.logf("%s: the mail %s leaves", l.process.name, id)
	if n, ok := w.truth.mayAct(l.process.host, "a mail leaves"); ok {
		effect := effectOf(id)
		left := false
		for _, e := range n.state().Outbox {
			left = left || e.ID == effect && e.MayHaveLeft()
		}
		if !left {
			w.violate("%s sends %s, and no head has its row as sending", l.process.name, effect)
		}
	}
	w.record.add(&w.record.mails, outgoing{id: id, answers: strings.Trim(m.Header.Get("In-Reply-To"), "<>"), text: string(body)})
	switch f := w.faultAfterDot(l.process); f {
	case KillAt:
		l.process.die("after the final dot")
		return io.ErrUnexpectedEOF
	case cutAt:
		conn.Close()
	}
	return nil
}

// effectOf returns the effect of a Message-ID.
func effectOf(id string) string {
	before, _, _ := strings.Cut(id, "."+handle)
	if i := strings.LastIndexByte(before, '.'); i > 0 {
		return before[:i] // without the MAC
	}
	return before
}

func (r *record) add(to *map[string]*outgoing, o outgoing) {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	if *to == nil {
		*to = map[string]*outgoing{}
	}
	if (*to)[o.id] == nil {
		(*to)[o.id] = &o
	}
	if strings.Contains(o.text, killedBySignal) && r.world.broken == "" {
		r.world.broken = fmt.Sprintf("%s reports an agent as failed that was ended because of its lease: %q", o.id, o.text)
	}
	if (*to)[o.id].copies++; (*to)[o.id].text != o.text && r.world.broken == "" {
		r.world.broken = fmt.Sprintf("%s left with two texts: %q and %q", o.id, (*to)[o.id].text, o.text)
	}
}

// meshSends checks a message that is about to leave.
func (r *record) meshSends(p *process, m mesh.Message) {
	n, ok := r.world.truth.mayAct(p.host, "a message leaves")
	if ok && !bytes.Contains(n.raw(), []byte(m.ID)) {
		r.world.violate("%s posts %s, and the head does not have it", p.name, m.ID)
	}
}

// meshSent records a message that has left.
func (r *record) meshSent(p *process, m mesh.Message) {
	r.world.logf("%s: the message %s leaves", p.name, m.ID)
	r.add(&r.posts, outgoing{id: m.ID, answers: m.Correlation, text: m.Text})
}

// checkSpans checks that no two agents ran at the same time.
func (r *record) checkSpans() {
	const tolerance = 100 * time.Millisecond
	spans := slices.Clone(r.spans)
	slices.SortFunc(spans, func(a, b span) int { return int(a.from - b.from) })
	for i, a := range spans {
		for _, b := range spans[i+1:] {
			if both := min(a.to, b.to) - b.from; both > tolerance {
				r.world.violate("the agents of %s on %s (%.1f to %.1f s) and of %s on %s (%.1f to %.1f s) ran at the same time for %.1f s",
					a.what, a.host.id, a.from.Seconds(), a.to.Seconds(), b.what, b.host.id, b.from.Seconds(), b.to.Seconds(), both.Seconds())
			}
		}
	}
}

// checkNotes checks that each text that an agent has sent has reached the peer, under one id.
func (r *record) checkNotes() {
	for _, note := range r.notes {
		n := 0
		for _, o := range r.posts {
			if o.text == note {
				n++
			}
		}
		if n != 1 {
			r.world.violate("%q has reached the peer under %d ids", note, n)
		}
	}
}

// answersTo returns the answers to a message.
func (r *record) answersTo(m *message) (all []*outgoing) {
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	from := r.posts
	if m.byMail {
		from = r.mails
	}
	for _, o := range from {
		if o.answers == m.id {
			all = append(all, o)
		}
	}
	return all
}
