package simulator

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"agentstateloop/internal/testkit/memcarrier"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// OverNATS is the carrier of stories whose mesh keeps the promises of one over NATS.
const OverNATS = "nats"

// stranger is an agent whose key we do not have.
const stranger = "stranger"

// natsMesh is the mesh of such a world, and an outsider's records of it.
type natsMesh struct {
	*memcarrier.Mesh
	world *World

	mu       sync.Mutex
	posted   int                 // messages of others
	ends     map[string]string   // the end of the key of a message to us, by its AckID
	letters  []memcarrier.Letter // that others have signed
	sent     map[string]string   // our messages as JSON, by id
	switched []bool              // each HALT and GO, in order
	lagged   bool                // an older HALT was shown
}

func newNATSMesh(w *World) *natsMesh {
	return &natsMesh{Mesh: memcarrier.New(w.clock.servers), world: w, ends: map[string]string{}, sent: map[string]string{}}
}

// carrier returns the carrier of one process.
func (n *natsMesh) carrier(p *process) *memcarrier.Carrier {
	return &memcarrier.Carrier{
		Mesh: n.Mesh, Handle: handle, Host: "alpha",
		Hook: func(c memcarrier.Call, do func() error) error { return n.call(p, c, do) },
	}
}

// laneOf returns the lane of a call. The process does not wait for an announcement.
func laneOf(call string) Lane {
	switch call {
	case "take", "mailbox":
		return ByMesh
	case "announce":
		return Aside
	}
	return Main
}

var errGone = errors.New("the connection broke")

// call makes one call of a process. Its request and its answer are points.
func (n *natsMesh) call(p *process, c memcarrier.Call, do func() error) error {
	w := n.world
	gone := &mesh.Error{Op: c.Name, Err: errGone}
	switch {
	case p.isDead():
		return gone
	case w.down("nats"):
		w.troubled("mesh")
		return gone
	case w.down("token"):
		p.refuse("mesh")
		return &state.CredentialError{Name: state.CredentialMesh, Err: &mesh.Error{Op: c.Name, Err: errors.New("the server refuses the key")}}
	}
	site := "nats " + c.Name
	v := p.point(laneOf(c.Name), site)
	switch v {
	case dead, cutOff, stalled:
		return gone
	case refused:
		w.troubled("mesh")
		w.count.happened("the engine had no leader")
		return &mesh.Error{Op: c.Name, Code: http.StatusServiceUnavailable, Err: errors.New("no leader")}
	case twice:
		n.reached(c, do())
	}
	err := do()
	n.reached(c, err)
	if v == goOn || v == twice {
		v = p.point(laneOf(c.Name), site+" answer")
	}
	switch v {
	case goOn, twice:
		n.disguise(c.Box)
		return err
	case lostAll:
		p.die()
	}
	return gone
}

// reached records a request that reached the mesh, and its error.
func (n *natsMesh) reached(c memcarrier.Call, err error) {
	w := n.world
	switch c.Name {
	case "take":
		w.record.connected("mesh")
	case "ack":
		n.checkAck(c.ID)
	case "send":
		if err != nil {
			w.troubled("mesh")
			w.count.happened("our part of a mailbox was full")
			return
		}
		n.checkRepeat(c.Message)
		body, err := c.Message.Posted()
		if err != nil {
			w.violate("4", "posted to the mesh: %+v: %v", c.Message, err)
		}
		w.record.meshSent(body)
	}
}

// checkRepeat checks that a message that is sent again is the same to the bit, with the signed
// time.
func (n *natsMesh) checkRepeat(m mesh.Message) {
	data, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	before, known := n.sent[m.ID]
	n.sent[m.ID] = string(data)
	if !known {
		return
	}
	n.world.count.happened("a message was published again over NATS")
	if before != string(data) && !n.world.clock.wasSetBack() { // then the state moves its times
		n.world.violate("2", "%s was published over NATS as two messages:\n%s\n%s", m.ID, before, data)
	}
}

// checkAck checks that a message which we acknowledge is durable with us.
func (n *natsMesh) checkAck(id string) {
	n.mu.Lock()
	end, known := n.ends[id]
	n.mu.Unlock()
	if !known {
		n.world.violate("1", "message %s, which nobody has sent, was acknowledged", id)
	}
	if known && !n.world.holds(end) {
		n.world.violate("1", "mesh message %s was acknowledged before it was durable", end)
	}
}

// disguise changes an answer to a poll as a server does that lags: it shows the HALT before the
// last one, and hands out messages a minute later.
func (n *natsMesh) disguise(box *mesh.Mailbox) {
	if box == nil {
		return
	}
	if n.world.down("nats-late") && !box.Empty() {
		n.world.count.happened("messages of the mesh came later")
		box.Messages, box.Undecoded = nil, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.switched) < 2 || !n.world.down("halt-stale") {
		return
	}
	n.world.count.happened("an answer about HALT was an old one")
	box.Halted, n.lagged = n.switched[len(n.switched)-2], true
}

// letter returns a signed message to us in the name of a handle. The signature of a stranger proves
// no sender.
func (n *natsMesh) letter(from, id string, body []byte) memcarrier.Letter {
	return memcarrier.Letter{To: handle, From: from, ID: id, At: n.world.clock.servers(), Body: body, Proven: from != stranger}
}

// put puts a letter into our mailbox. It returns the id that the letter has with us, and whether
// the mesh took it.
func (n *natsMesh) put(l memcarrier.Letter) (id string, taken bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	id, err := n.Put(l)
	if err != nil {
		return "", false
	}
	ack, end := l.From+"/"+id, ":"+l.From+":"+id
	if !json.Valid(l.Body) || l.ID == junkID {
		sum := sha256.Sum256(append([]byte("undecoded "), l.Body...))
		ack, end = id, ":~"+hex.EncodeToString(sum[:]) // mesh::~…
	}
	n.ends[ack] = end
	return id, true
}

// post posts a message or nudge to us as its sender does, or, unsigned, as a forger does.
func (n *natsMesh) post(m map[string]any, signed bool) (id string, taken bool) {
	body, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	l := n.letter(m["from"].(string), m["id"].(string), body)
	l.Proven = l.Proven && signed
	if id, taken = n.put(l); taken && l.Proven {
		n.mu.Lock()
		n.letters = append(n.letters, l)
		n.mu.Unlock()
	}
	return id, taken
}

// setHalt sets or lifts the HALT of the mesh, as a peer does.
func (n *natsMesh) setHalt(on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.SetHalt(on, true)
	n.switched = append(n.switched, on)
}

// halts returns each HALT and GO of the mesh, in order.
func (w *World) halts() []bool {
	if w.nats == nil {
		return nil
	}
	w.nats.mu.Lock()
	defer w.nats.mu.Unlock()
	return w.nats.switched
}

// left returns the messages in our mailbox.
func (n *natsMesh) left() (left []string) {
	for _, l := range n.Waiting(handle) {
		left = append(left, fmt.Sprintf("of %s: %s", l.From, l.Body))
	}
	return left
}

// fill fills our part of the mailboxes of the others.
func (n *natsMesh) fill() {
	for _, peer := range peers {
		for taken := true; taken; {
			_, err := n.Put(memcarrier.Letter{To: peer, From: handle, ID: n.newID("full"), Body: []byte("{}"), Proven: true})
			taken = err == nil
		}
	}
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

// junkID is the id of a payload that is not a message.
const junkID = "junk"

// postJunk puts a payload into our mailbox that cannot be decoded.
func (n *natsMesh) postJunk(text string) { n.put(n.letter(peers[0], junkID, []byte(text))) }
