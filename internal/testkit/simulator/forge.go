package simulator

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// This file plays programs that can use the engine: with all rights, or with those of a
// peer. None of what they post in the name of a peer is the peer's (docs/protocol.md, "The mesh
// over NATS").

// forgeries are the kinds of what they post. The names in brackets say what comes of it.
//
//	unsigned  a message in a peer's name, without a signature (kept)
//	stranger  signed by a key that we do not have (kept)
//	sister    signed by the key of another peer (kept)
//	altered   with the signature of another text of the peer (kept)
//	moved     that the peer has signed for another agent (kept)
//	renamed   of a peer, which says that it is of another one (kept)
//	other-id  of a peer, with two ids (kept)
//	reserved  of a peer, with an id as messages have that nothing proves (kept)
//	late      that the peer has signed eight days ago (kept)
//	early     that the peer has signed for the day after tomorrow (kept)
//	relay     a request to mail the operator, without a signature (kept)
//	nudge     without a signature (no phase moves)
//	report    an answer to a question of ours, without a signature (the question stays open)
//	usurped   an unsigned message with the id of one that the peer then sends (kept, and answered)
//	twins     two peers use one id (both answered)
//	replayed  what a peer has signed is posted once more (nothing, but after a week: kept)
//	status    of somebody, without a text and with the status of an engine that has no leader (nothing)
//	flood     a peer sends seven messages at once (all answered)
var forgeries = weighted[string]{
	{2, "unsigned"}, {2, "stranger"}, {1, "sister"}, {2, "altered"}, {1, "moved"}, {1, "renamed"}, {1, "other-id"}, {1, "reserved"}, {2, "late"}, {1, "early"},
	{1, "relay"}, {2, "nudge"}, {2, "report"}, {3, "usurped"}, {2, "twins"}, {5, "replayed"}, {2, "status"}, {1, "flood"},
}

// forge posts a forgery.
func (w *World) forge(s Step) {
	n := w.nats
	if n == nil {
		return
	}
	w.count.happened("forged over NATS: " + s.Kind)
	switch s.Kind {
	case "nudge":
		m := n.nudge(peers[0])
		m["id"] = "forged-" + m["id"].(string)
		l := n.letter(peers[0], m["id"].(string), encode(m))
		n.put(l, admin, l.unproven())
	case "report":
		w.forgeReport(s)
	case "usurped":
		m, p := w.letterOf(s, peers[0])
		p.correlation = "forged-" + p.marker
		m["id"], m["correlation_id"] = n.newID("taken"), p.correlation
		l := n.letter(peers[0], m["id"].(string), encode(m))
		w.expect(s, p, l.unproven(), n.put(l, admin, l.unproven()))
		genuine, p := w.letterOf(s, peers[0])
		genuine["id"] = m["id"]
		p.correlation, p.fate = m["id"].(string), answered
		id, taken := n.post(genuine, true)
		w.expect(s, p, id, taken)
	case "twins":
		id := n.newID("twin")
		for _, peer := range peers {
			m, p := w.letterOf(s, peer)
			p.correlation, p.fate = "twin-"+p.marker, answered
			m["id"], m["correlation_id"] = id, p.correlation
			_, taken := n.post(m, true)
			w.expect(s, p, peer+":"+id, taken)
		}
	case "replayed":
		w.replay(s)
	case "status":
		for range 1 + s.N%20 {
			n.putStatus()
		}
	case "flood":
		s.Wish = "answer"
		for range 7 {
			m, p := w.letterOf(s, peers[s.N%2])
			p.fate = answered
			id, taken := n.post(m, true)
			w.expect(s, p, id, taken)
		}
	default:
		w.forgeLetter(s)
	}
}

// letterOf returns a message in the name of a peer, and the record of it as of one that
// must be kept.
func (w *World) letterOf(s Step, from string) (map[string]any, *meshMessage) {
	w.record.mu.Lock()
	marker := fmt.Sprintf("P%03d", len(w.record.meshMessages))
	w.record.mu.Unlock()
	id := "id-" + marker
	m := map[string]any{"id": id, "from": from, "to": handle, "kind": "message", "message": marker + " do=" + s.Wish}
	return m, &meshMessage{marker: marker, kind: s.Kind, from: from, correlation: id, fate: kept}
}

// expect records a message under the id that it has with us, if the mesh took it.
func (w *World) expect(s Step, p *meshMessage, id string, taken bool) {
	if !taken {
		return
	}
	if p.fate == kept {
		p.from = "unproven " + p.from
	}
	w.record.mu.Lock()
	defer w.record.mu.Unlock()
	p.id = id
	w.record.meshMessages = append(w.record.meshMessages, p)
	w.wishInside(s)
}

// forgeLetter posts one message that nothing proves.
func (w *World) forgeLetter(s Step) {
	n, from := w.nats, peers[0]
	m, p := w.letterOf(s, from)
	by := admin
	switch s.Kind {
	case "relay":
		m["kind"], p.kind = "relay", "whisper"
	case "renamed":
		from, by = peers[1], peers[1]
	case "reserved":
		m["id"] = "unproven." + p.marker
		p.correlation = "unproven." + p.marker
	}
	l := n.letter(from, m["id"].(string), encode(m))
	at := n.world.clock.servers()
	switch s.Kind {
	case "stranger":
		l = l.signed(stranger)
	case "sister":
		l = l.signed(peers[1])
	case "altered":
		l.signature = l.signed(from).signature
		l.body = bytes.Replace(l.body, []byte("do="+s.Wish), []byte("do="+s.Wish+" now"), 1)
	case "moved":
		other := l
		other.to = peers[1]
		l.signature = other.signed(from).signature
	case "renamed", "reserved":
		l = l.signed(from)
	case "other-id":
		l.id = "other-" + l.id
		l = l.signed(from)
	case "late":
		l.at = at.Add(-8 * 24 * time.Hour).UTC().Format(time.RFC3339Nano)
		l = l.signed(from)
	case "early":
		l.at = at.Add(2 * 24 * time.Hour).UTC().Format(time.RFC3339Nano)
		l = l.signed(from)
	}
	w.expect(s, p, l.unproven(), n.put(l, by, l.unproven()))
}

// forgeReport answers a question of ours in the name of who was asked.
func (w *World) forgeReport(s Step) {
	w.record.mu.Lock()
	if len(w.record.questions) == 0 {
		w.record.mu.Unlock()
		return
	}
	q := w.record.questions[s.N%len(w.record.questions)]
	w.record.mu.Unlock()
	m := map[string]any{
		"id": "report-" + q.id, "from": q.peer, "to": handle, "kind": "report", "correlation_id": q.correlation,
		"message": "the answer to " + q.id + ", which is forged",
	}
	l := w.nats.letter(q.peer, m["id"].(string), encode(m))
	w.nats.put(l, admin, l.unproven())
}

// replay posts something once more that a peer has signed, as it was.
func (w *World) replay(s Step) {
	n := w.nats
	n.mu.Lock()
	if len(n.letters) == 0 {
		n.mu.Unlock()
		return
	}
	l := n.letters[s.N%len(n.letters)]
	n.mu.Unlock()
	at, err := time.Parse(time.RFC3339Nano, l.at)
	if err != nil {
		panic(err)
	}
	id := l.id
	if n.world.clock.servers().Sub(at) > 7*24*time.Hour {
		w.count.happened("an old message was replayed over NATS")
		id = l.unproven()
	}
	n.put(l, admin, id)
}

// newID returns an id that names no marker.
func (n *natsMesh) newID(kind string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.posted++
	return fmt.Sprintf("%s.%d", kind, n.posted)
}

// nudge returns a nudge of us.
func (n *natsMesh) nudge(from string) map[string]any {
	return map[string]any{"id": n.newID("nudge"), "from": from, "to": handle, "kind": "nudge", "message": "wake up"}
}

// putStatus puts a message into our mailbox that looks like an answer of the engine.
func (n *natsMesh) putStatus() {
	header := map[string][]string{"Asl-Id": {n.newID("status")}, "Status": {"503"}}
	sum := sha256.Sum256([]byte("undecoded "))
	n.mu.Lock()
	defer n.mu.Unlock()
	sequence, _ := n.publish(stranger, "asl.box."+handle+"."+stranger, header, nil)
	n.ends[sequence] = ":~" + hex.EncodeToString(sum[:])
}

// postJunk puts something into our mailbox that cannot be decoded.
func (n *natsMesh) postJunk(text string) {
	l := n.letter(peers[0], "junk", []byte(text)).signed(peers[0])
	sum := sha256.Sum256([]byte("undecoded " + text))
	n.put(l, peers[0], "~"+hex.EncodeToString(sum[:])) // mesh::~…
}
