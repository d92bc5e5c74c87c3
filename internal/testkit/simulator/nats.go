package simulator

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nkeys"

	"agentstateloop/fleet"
	"agentstateloop/internal/testkit/fleettest/memory"
)

// OverNATS is the carrier of stories whose mesh is over NATS.
const OverNATS = "nats"

// natsPatience limits one call of the mesh over NATS, in real time. A try of a call lasts
// half of it.
const natsPatience = 800 * time.Millisecond

// Those of whom no peer knows the key: one that is not listed, an administrator of the
// engine, and one whom the engine does not know.
const (
	stranger = "stranger"
	admin    = "admin"
	unknown  = "unknown"
)

// natsKey is the key of a user.
type natsKey struct {
	seed, public string
	pair         nkeys.KeyPair
}

// natsKeys are the keys of the users in all stories, by name.
var natsKeys = keysOf(handle, peers[0], peers[1], stranger, admin, unknown)

func keysOf(names ...string) map[string]natsKey {
	keys := map[string]natsKey{}
	for _, name := range names {
		raw := sha256.Sum256([]byte("the key of " + name))
		pair, err := nkeys.FromRawSeed(nkeys.PrefixByteUser, raw[:])
		if err != nil {
			panic(err)
		}
		seed, err := pair.Seed()
		if err != nil {
			panic(err)
		}
		public, err := pair.PublicKey()
		if err != nil {
			panic(err)
		}
		keys[name] = natsKey{string(seed), public, pair}
	}
	return keys
}

// natsMesh is the mesh of a world over NATS: the engine, those besides us who use it, and
// what an outsider sees there.
type natsMesh struct {
	world  *World
	engine *memory.Engine
	people map[string]*fleet.Conn // with whom others speak to the engine, by name

	mu       sync.Mutex
	posted   int                          // by others
	ends     map[uint64]string            // how the keys of what is in our mailbox end, by number in the stream
	letters  []letter                     // that others have signed
	sent     map[string][sha256.Size]byte // what we have published, by id
	stored   map[string]time.Time         // when the engine took a message of ours last, by id
	restarts int
	swept    uint64 // the number of the last message to others that was seen
	halted   bool
	switched []bool  // what it was halted, and not, in turn
	lagged   bool    // an old answer about HALT was shown
	halts    []frame // the answers about HALT, each another one than the one before
}

func newNATSMesh(w *World) *natsMesh {
	users := map[string]string{}
	for _, name := range []string{handle, peers[0], peers[1], stranger} {
		users[name] = natsKeys[name].public
	}
	n := &natsMesh{world: w, people: map[string]*fleet.Conn{}, ends: map[uint64]string{}, sent: map[string][sha256.Size]byte{}, stored: map[string]time.Time{}}
	n.engine = memory.New(memory.Options{Users: users, Admin: natsKeys[admin].public, Now: w.clock.servers, Replicas: 3})
	for _, name := range []string{handle, peers[0], peers[1], stranger, admin} {
		user := name
		if name == admin {
			user = ""
		}
		n.people[name] = &fleet.Conn{
			URL: "nats://127.0.0.1:4222", Handle: user, Timeout: 5 * time.Second,
			Seed: func(context.Context) (string, error) { return natsKeys[name].seed, nil },
			Dial: func(context.Context, string, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				go n.engine.Serve(theirs)
				return ours, nil
			},
		}
	}
	return n
}

// serve lets the engine speak with those who come through an inlet.
func (n *natsMesh) serve(from *inlet) {
	for {
		c, err := from.Accept()
		if err != nil {
			return
		}
		go n.engine.Serve(c)
	}
}

func (n *natsMesh) close() {
	for _, c := range n.people {
		c.Close()
	}
	n.engine.Restart() // ends all connections
}

// publish publishes something for a user. It returns its number in the stream, or false if
// the engine did not take it.
func (n *natsMesh) publish(by, subject string, header map[string][]string, body []byte) (sequence uint64, taken bool) {
	for range 3 { // the engine may just have been started again
		answer, err := n.people[by].Request(context.Background(), subject, body, header)
		var stored struct {
			Seq   uint64
			Error *struct{ Description string }
		}
		if err != nil || json.Unmarshal(answer.Data, &stored) != nil {
			continue
		}
		return stored.Seq, stored.Error == nil
	}
	return 0, false
}

// letter is a message for a mailbox, as somebody signed it.
type letter struct {
	to, from, id, at string
	body             []byte
	signature        string
}

// letter returns a message to us in the name of a handle, unsigned. No two are signed at
// the same time.
func (n *natsMesh) letter(from, id string, body []byte) letter {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.posted++
	at := n.world.clock.servers().Add(-time.Duration(n.posted) * time.Millisecond)
	return letter{to: handle, from: from, id: id, at: at.UTC().Format(time.RFC3339Nano), body: body}
}

// signed returns the letter with the signature of a user's key, as docs/protocol.md, "The
// mesh over NATS", says.
func (l letter) signed(by string) letter {
	l.signature = natsSignature(by, fmt.Sprintf("asl1 box %s %s %s %s\n", l.to, l.from, l.id, l.at), l.body)
	return l
}

// natsSignature returns the signature of a user's key over a line and a body.
func natsSignature(by, line string, body []byte) string {
	signature, err := natsKeys[by].pair.Sign(append([]byte(line), body...))
	if err != nil {
		panic(err)
	}
	return base64.RawStdEncoding.EncodeToString(signature)
}

// unproven returns how the key of the letter ends if nothing proves it.
func (l letter) unproven() string { return "unproven." + l.digest() }

// digest returns a digest of all that its sender chose.
func (l letter) digest() string {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(l.from), []byte(l.id), l.body} {
		fmt.Fprintf(h, "%d ", len(part))
		h.Write(part)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// put puts a letter into our mailbox, with the rights of a user, and notes the id that it
// has with us. It reports whether the engine took it.
func (n *natsMesh) put(l letter, by, id string) bool {
	header := map[string][]string{"Asl-Id": {l.id}, "Asl-At": {l.at}}
	if l.signature != "" {
		header["Asl-Sig"] = []string{l.signature}
	}
	n.mu.Lock()
	sequence, taken := n.publish(by, "asl.box."+handle+"."+l.from, header, l.body)
	n.ends[sequence] = ":" + id
	n.mu.Unlock()
	return taken
}

// post posts a message or nudge to us as its sender does. It returns the id that it has
// with us, and whether the engine took it.
func (n *natsMesh) post(m map[string]any, signed bool) (id string, taken bool) {
	from, id := m["from"].(string), m["id"].(string)
	l := n.letter(from, id, encode(m))
	if signed {
		l = l.signed(from)
	}
	if !signed || from == stranger {
		return l.unproven(), n.put(l, from, l.unproven())
	}
	taken = n.put(l, from, id)
	if taken {
		n.mu.Lock()
		n.letters = append(n.letters, l)
		n.mu.Unlock()
	}
	return id, taken
}

func encode(m map[string]any) []byte {
	body, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return body
}

// setHalt sets or lifts the HALT of the mesh, as a peer does.
func (n *natsMesh) setHalt(on bool) (taken bool) {
	after := uint64(0)
	for _, m := range n.engine.Messages(fleet.MeshStream) {
		after = m.Sequence
	}
	body := fmt.Appendf(nil, `{"halted":%t,"by":%q,"at":%q,"after":%d}`, on, peers[0], n.world.clock.servers().UTC().Format(time.RFC3339), after)
	header := map[string][]string{"Asl-Sig": {natsSignature(peers[0], "asl1 halt\n", body)}}
	_, taken = n.publish(peers[0], "$KV.asl-mesh.halt", header, body)
	n.mu.Lock()
	defer n.mu.Unlock()
	if taken {
		n.halted = on
		n.switched = append(n.switched, on)
	}
	return taken
}

// left returns what waits in our mailbox.
func (n *natsMesh) left() (left []string) {
	for _, m := range n.engine.Messages(fleet.MailboxStream) {
		if strings.HasPrefix(m.Subject, "asl.box."+handle+".") {
			left = append(left, fmt.Sprintf("%s %s", m.Subject, m.Body))
		}
	}
	return left
}

// published notes a message that we publish. Its repeats must be the same to the bit, but
// for the order of the headers.
func (n *natsMesh) published(f frame) {
	id := headerOf(f.header, "Asl-Id")
	headers := bytes.Split(f.header, []byte("\r\n"))
	slices.SortFunc(headers, bytes.Compare)
	sum := sha256.Sum256(bytes.Join(append(headers, []byte(f.subject), f.body), []byte("\n")))
	n.mu.Lock()
	defer n.mu.Unlock()
	before, known := n.sent[id]
	n.sent[id] = sum
	if !known {
		return
	}
	n.world.count.happened("a message was published again over NATS")
	if before != sum && !n.world.clock.wasSetBack() { // then the state moves the times it has, and one of them is signed
		n.world.violate("2", "%s was published over NATS as two messages, at last:\n%s%s", id, f.header, f.body)
	}
}

// answered records what the engine answers to a message that we publish.
func (n *natsMesh) answered(asked, answer frame) {
	w := n.world
	var stored struct {
		Seq       uint64
		Duplicate bool
		Error     *struct {
			Code int `json:"err_code"`
		}
	}
	if json.Unmarshal(answer.body, &stored) != nil {
		return
	}
	if stored.Error != nil {
		w.troubled("mesh")
		const full = 10077
		if stored.Error.Code == full {
			w.count.happened("our part of a mailbox was full")
		}
		return
	}
	if stored.Duplicate {
		w.count.happened("the engine knew a message that was published again")
	}
	w.record.meshSent(asked.body)
}

// sweep records what the engine has of us although we never heard that it does, and lets
// the others read their mailboxes.
func (n *natsMesh) sweep() {
	var mail []memory.Stored
	var full bool
	for _, m := range n.engine.Messages(fleet.MailboxStream) {
		if strings.HasPrefix(m.Subject, "asl.box."+handle+".") {
			continue
		}
		mail = append(mail, m)
		full = full || bytes.Contains(m.Header, []byte("Asl-Id: full-"))
	}
	for _, m := range mail {
		if m.Sequence <= n.swept {
			continue
		}
		n.swept = m.Sequence
		if !bytes.Contains(m.Header, []byte("Asl-Id: full-")) {
			n.found(m)
		}
	}
	if len(mail) == 0 || full && n.world.down("box-full") || n.world.down("engine-leaderless") {
		return
	}
	for _, peer := range peers {
		n.read(peer)
	}
}

// found records a message of ours, unless it was recorded.
func (n *natsMesh) found(m memory.Stored) {
	var said struct{ ID string }
	if json.Unmarshal(m.Body, &said) != nil {
		n.world.violate("4", "the engine has of us: %s", m.Body)
	}
	if before, twice := n.stored[said.ID]; twice && m.At.Sub(before) < time.Hour && n.restarts == 0 && !n.world.clock.wasSetBack() { // see published
		n.world.violate("2", "the engine took %s at %s and at %s", said.ID, before, m.At)
	}
	n.stored[said.ID] = m.At
	n.world.record.mu.Lock()
	_, known := n.world.record.reports[said.ID]
	n.world.record.mu.Unlock()
	if !known {
		n.world.record.meshSent(m.Body)
	}
}

// restart starts the engine again. After that it knows the repeats only of what it holds.
func (n *natsMesh) restart() {
	n.restarts++
	n.world.count.happened("the engine was started again")
	n.engine.Restart()
}

// read lets a peer read its mailbox until nothing comes.
func (n *natsMesh) read(peer string) {
	for range 10 {
		taken, err := n.people[peer].Take(context.Background(), "", n.world.clock.servers(), 200, 1<<20)
		if err != nil || len(taken.Items) == 0 {
			return
		}
		if n.people[peer].Ack(context.Background(), taken.Items...) != nil {
			return
		}
	}
}

// fill fills our part of the mailboxes of the others.
func (n *natsMesh) fill() {
	for _, peer := range peers {
		for i := range 200 {
			header := map[string][]string{"Asl-Id": {fmt.Sprintf("full-%d", i)}}
			if _, taken := n.publish(admin, "asl.box."+peer+"."+handle, header, []byte("{}")); !taken {
				break
			}
		}
	}
}

// checkAck checks that a message which we acknowledge is durable with us.
func (n *natsMesh) checkAck(f frame) {
	if !bytes.HasPrefix(f.body, []byte("+ACK")) {
		return
	}
	var sequence uint64
	tokens := strings.Split(f.subject, ".")
	if len(tokens) > 11 {
		tokens = tokens[2:] // the domain and the account
	}
	if len(tokens) < 9 {
		return
	}
	if _, err := fmt.Sscan(tokens[5], &sequence); err != nil {
		return
	}
	n.mu.Lock()
	end, known := n.ends[sequence]
	n.mu.Unlock()
	if !known {
		n.world.violate("1", "message %d, which nobody has sent, was acknowledged: %s", sequence, f.subject)
	}
	if known && !n.world.holds(end+`"`) {
		n.world.violate("1", "mesh message %s was acknowledged before it was durable", end)
	}
}

// haltShown returns the answer about HALT that a process is shown, and what happens to
// it: while a server lags it is an older one, and while it is mute there is none.
func (n *natsMesh) haltShown(f frame, site string, v verdict) (frame, verdict) {
	if site != "nats halted" || f.status() == "503" {
		return f, v
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	shown := append(slices.Clone(f.header), f.body...)
	if last := len(n.halts) - 1; last < 0 || !bytes.Equal(shown, append(slices.Clone(n.halts[last].header), n.halts[last].body...)) {
		n.halts = append(n.halts, f)
	}
	switch {
	case n.world.down("halt-mute"):
		n.world.count.happened("an answer about HALT never came")
		return f, refused
	case n.world.down("halt-stale") && len(n.halts) > 1:
		old := n.halts[len(n.halts)-2]
		n.world.count.happened("an answer about HALT was an old one")
		n.lagged = true
		f.header, f.body = old.header, old.body
		head := fmt.Sprintf("HMSG %s %s %d %d\r\n", f.subject, f.sid, len(f.header), len(f.header)+len(f.body))
		f.raw = slices.Concat([]byte(head), f.header, f.body, []byte("\r\n"))
	}
	return f, v
}
