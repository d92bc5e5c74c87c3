package natsfaults_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"agentstateloop/cycle"
	"agentstateloop/fleet"
	"agentstateloop/internal/testkit/fleettest"
	"agentstateloop/mesh"
	"agentstateloop/mesh/natsmesh"
	"agentstateloop/state"
)

// siege is an agent, bob, that others attack. It knows the keys of alice and carol; mallory
// is listed as a peer without a key, and nobody knows eve.
type siege struct {
	*member
	t      *testing.T
	engine *fleettest.Engine
	alice  *natsmesh.Client
	now    atomic.Int64 // how much the clock of bob was moved
	root   *fleettest.Intruder
	turns  int // that honest messages have had
}

func newSiege(t *testing.T, more ...string) *siege {
	t.Helper()
	s := &siege{t: t, engine: fleettest.Start(t, append([]string{"alice", "bob", "carol", "mallory", "eve"}, more...)...)}
	hurry(s.engine, time.Second)
	c := newClock(speed)
	keys := s.engine.Keys()
	client := s.engine.Client("bob")
	client.Keys = map[string]string{"alice": keys["alice"], "carol": keys["carol"]}
	s.member = newMember(client)
	s.Agent = wired(t.TempDir(), client, "bob", []string{"alice", "carol", "mallory"}, c)
	s.Agent.Now = func() time.Time { return c.now().Add(time.Duration(s.now.Load())) }
	client.Now = s.Agent.Now
	s.RunTurn = s.turn
	t.Cleanup(s.Close)
	s.alice, s.root = s.engine.Client("alice"), s.engine.Intrude("")
	return s
}

// honest has alice send a message, and checks that it has its turn.
func (s *siege) honest() {
	s.t.Helper()
	s.turns++
	text := fmt.Sprint("honest", s.turns)
	s.send(s.alice, mesh.Message{ID: text, To: "bob", Text: text})
	s.poll()
	s.unharmed()
}

// send sends a message of an agent.
func (s *siege) send(from *natsmesh.Client, m mesh.Message) {
	s.t.Helper()
	if _, err := from.Send(s.t.Context(), m); err != nil {
		s.t.Fatal(err)
	}
}

// store has the engine store a message as if it came from its sender.
func (s *siege) store(m *nats.Msg) {
	s.t.Helper()
	if a := s.root.Ask(m); strings.Contains(string(a.Data), "error") {
		s.t.Fatalf("%s is not stored: %s", m.Subject, a.Data)
	}
}

// poll polls until nothing is left to do.
func (s *siege) poll() {
	s.t.Helper()
	err := settle(50*time.Millisecond, time.Minute, func() string {
		if _, err := s.Poll(s.t.Context(), cycle.PollOptions{}); err != nil {
			s.t.Fatal(err)
		}
		_, why := s.restless(s.t.Context())
		return why
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// unharmed checks that each honest message has had one turn, and nothing else has had any.
func (s *siege) unharmed() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := range s.turns {
		if text := fmt.Sprint("honest", n+1); s.begun[text] != 1 {
			s.t.Errorf("%s has had %d turns", text, s.begun[text])
		}
	}
	if len(s.begun) != s.turns {
		s.t.Errorf("turns were begun for %v", s.begun)
	}
}

// gated returns how many messages each gate has rejected.
func (s *siege) gated() map[string]int {
	s.t.Helper()
	count := map[string]int{}
	for _, l := range s.history(s.t, state.LineGate) {
		count[l.Gate]++
	}
	return count
}

// captured returns the last message on a subject as the engine keeps it.
func (s *siege) captured(subject string) *nats.Msg {
	s.t.Helper()
	a := s.root.Ask(&nats.Msg{Subject: "$JS.API.STREAM.MSG.GET." + fleet.MailboxStream, Data: fmt.Appendf(nil, `{"last_by_subj":%q}`, subject)})
	var got struct {
		Message struct {
			Headers []byte `json:"hdrs"`
			Data    []byte `json:"data"`
		} `json:"message"`
	}
	if err := json.Unmarshal(a.Data, &got); err != nil {
		s.t.Fatal(err)
	}
	header, err := nats.DecodeHeadersMsg(got.Message.Headers)
	if err != nil || header.Get("Asl-Sig") == "" {
		s.t.Fatalf("%s: %s, %v", subject, a.Data, err)
	}
	delete(header, "Nats-Msg-Id") // with it the engine itself knows a repeat
	return &nats.Msg{Subject: subject, Header: header, Data: got.Message.Data}
}

// again returns a copy of a message with other headers, on another subject, or with
// another body, as far as they are given.
func again(m *nats.Msg, subject, body string, headers ...string) *nats.Msg {
	c := &nats.Msg{Subject: cmp.Or(subject, m.Subject), Header: maps.Clone(m.Header), Data: m.Data}
	for n := 0; n < len(headers); n += 2 {
		c.Header[headers[n]] = []string{headers[n+1]}
	}
	if body != "" {
		c.Data = []byte(body)
	}
	return c
}

// TestForgedSenders checks that nothing which the key of its sender did not sign causes a
// turn, not even of a user who may publish everywhere.
func TestForgedSenders(t *testing.T) {
	t.Parallel()
	s := newSiege(t)
	s.honest()
	s.send(s.alice, mesh.Message{ID: "told1", To: "bob", Text: "honest2"})
	s.send(s.alice, mesh.Message{ID: "told2", To: "carol", Text: "for carol"})
	s.turns++
	signed, other := s.captured("asl.box.bob.alice"), s.captured("asl.box.carol.alice")
	at := time.Now().UTC().Format(time.RFC3339Nano)
	forged := func(from, id string) string {
		return fmt.Sprintf(`{"id":%q,"from":%q,"to":"bob","message":"forged"}`, id, from)
	}
	naming := func(signer, from, id, named string) *nats.Msg {
		body := forged(named, id)
		line := "asl1 box bob " + from + " " + id + " " + at + "\n"
		return &nats.Msg{Subject: "asl.box.bob." + from, Data: []byte(body), Header: nats.Header{
			"Asl-Id": {id}, "Asl-At": {at}, "Asl-Sig": {s.engine.Sign(signer, line, []byte(body))},
			"Asl-Key": {s.engine.Users[signer].Public}, "Nkey": {s.engine.Users[signer].Public},
		}}
	}
	by := func(signer, from, id string) *nats.Msg { return naming(signer, from, id, from) }
	attacks := []*nats.Msg{
		by("mallory", "alice", "m1"), by("eve", "carol", "m2"), by("mallory", "mallory", "m3"), by("alice", "mallory", "m4"), by("mallory", "bob", "m5"),
		{Subject: "asl.box.bob.alice", Data: []byte(forged("alice", "n1"))},
		{Subject: "asl.box.bob.alice", Data: []byte(`{"id":"n2","from":"alice","to":"bob","message":"forged","proven":true,"kind":"relay"}`)},
		again(signed, "", forged("alice", "told1")),                              // another body
		again(signed, "", forged("alice", "o2"), "Asl-Id", "o2"),                 // another id
		again(signed, "", "", "Asl-Id", "o3"),                                    //
		again(signed, "", "", "Asl-At", at),                                      // another time
		again(signed, "", "", "Asl-At", ""),                                      //
		again(signed, "", "", "Asl-Sig", signed.Header.Get("Asl-Sig")[:80]),      //
		again(signed, "", "", "Asl-Sig", other.Header.Get("Asl-Sig")),            // that of another message
		again(signed, "asl.box.bob.carol", ""),                                   // another sender
		again(signed, "asl.box.bob.mallory", ""),                                 //
		again(other, "asl.box.bob.alice", ""),                                    // another recipient
		again(other, "asl.box.bob.alice", forged("alice", "told2")),              //
		naming("alice", "alice", "x1", "carol"),                                  // another name in the body
		{Subject: "asl.box.bob.alice", Header: signed.Header, Data: []byte{}},    // no body
		{Subject: "asl.box.bob.alice", Header: signed.Header, Data: []byte("[")}, // no message
	}
	for _, m := range attacks {
		s.store(m)
	}
	// What mallory may publish with a key of her own, and what she may not.
	mallory := s.engine.Intrude("mallory")
	mallory.Ask(again(signed, "asl.box.bob.mallory", forged("alice", "m6")))
	for _, m := range attacks[:2] {
		m.Reply = mallory.Inbox
		if err := mallory.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
		mallory.IsRefused(m.Subject)
	}
	s.poll()
	s.unharmed()
	// Four have the same id and body, and count as one. What says that
	// it is from bob is noted.
	if n, want := s.gated(), len(attacks)+1-3-1; n["proof"]+n["form"] != want || n["form"] != 2 {
		t.Errorf("of %d attacks the gates have rejected %v, not %d", len(attacks)+1, n, want)
	}
	s.honest()
}

// TestReplays checks that a signed message that is published again causes no second turn:
// while it is known, and at an age at which it may be forgotten.
func TestReplays(t *testing.T) {
	t.Parallel()
	s := newSiege(t)
	s.turns++
	s.send(s.alice, mesh.Message{ID: "honest1", To: "bob", Text: "honest1", Kind: mesh.KindAsk})
	m := s.captured("asl.box.bob.alice")
	s.store(again(m, "", "")) // before it was read
	s.poll()
	s.store(again(m, "", "")) // after it was answered
	s.store(again(m, "", "", "Nats-Msg-Id", "another"))
	s.store(again(m, "asl.box.carol.alice", ""))
	s.store(again(m, "asl.box.bob.carol", ""))
	s.poll()
	s.unharmed()
	s.now.Add(int64(13 * 24 * time.Hour)) // the state still knows it, while it would count as new for 7 days
	s.store(again(m, "", ""))
	s.poll()
	s.unharmed()
	// What was signed 8 days ago proves nothing, whether it is known or not.
	before := s.gated()["proof"]
	s.send(s.alice, mesh.Message{ID: "late", To: "bob", Text: "late", SentAt: time.Now().Add(-8 * 24 * time.Hour)})
	s.poll()
	if n := s.gated()["proof"] - before; n != 1 {
		t.Errorf("the gate has rejected %d messages that were signed 8 days ago", n)
	}
	s.unharmed()
	box, err := s.alice.Take(t.Context())
	if err != nil || len(box.Messages) != 1 {
		t.Errorf("alice has %d answers, %v", len(box.Messages), err)
	}
	s.honest()
}

// TestOversize checks that no size of what a sender chooses fails a poll or keeps honest
// messages away.
func TestOversize(t *testing.T) {
	t.Parallel()
	s := newSiege(t)
	many := nats.Header{}
	for n := range 200 {
		many[fmt.Sprint("X-", n)] = []string{"x"}
	}
	max := (66 << 10) + (4 << 10) // as much as the stream takes, with headers
	body := func(size int) []byte {
		const head, tail = `{"id":"big","from":"mallory","to":"bob","message":"`, `"}`
		return []byte(head + strings.Repeat("x", size-len(head)-len(tail)) + tail)
	}
	stored := 0
	mallory := s.engine.Intrude("mallory")
	for name, m := range map[string]*nats.Msg{
		"over 64 KiB":       {Header: nats.Header{"Asl-Id": {"big"}}, Data: body(65 << 10)},
		"as the stream":     {Data: body(max - 200)},
		"over the stream":   {Data: body(max + 1)},
		"a megabyte":        {Data: body(1<<20 - 1000)},
		"a large header":    {Header: nats.Header{"Asl-Sig": {strings.Repeat("x", 60<<10)}}, Data: []byte(`{"id":"header"}`)},
		"a megabyte header": {Header: nats.Header{"Asl-Sig": {strings.Repeat("x", 1<<19)}}, Data: []byte("{}")},
		"many headers":      {Header: many, Data: []byte("{}")},
		"a bomb":            {Data: []byte(strings.Repeat("[", 60<<10))},
		"a deep bomb":       {Data: []byte(strings.Repeat(`{"fields":`, 6<<10))},
		"names twice":       {Data: []byte(`{"id":"a","id":"b","from":"alice"}`)},
		"a long id":         {Data: []byte(`{"from":"mallory","to":"bob","message":"x","id":"` + strings.Repeat("i", 40<<10) + `"}`)},
		"many hops":         {Data: []byte(`{"from":"mallory","to":"bob","message":"x","id":"h","hops":["` + strings.Repeat(`a","`, 9<<10) + `b"]}`)},
		"not UTF-8":         {Data: bytes.Repeat([]byte{0xff, 0xfe, 0}, 20<<10)},
	} {
		m.Subject = "asl.box.bob.mallory"
		a := mallory.Ask(m)
		if !strings.Contains(string(a.Data), "error") {
			stored++
		} else if !strings.HasPrefix(name, "over the") && !strings.Contains(name, "megabyte") {
			t.Errorf("%s: %s", name, a.Data)
		}
	}
	s.poll()
	if n := len(s.history(t, state.LineGate)); n != stored || stored < 9 {
		t.Errorf("%d of %d messages were rejected: %v", n, stored, s.gated())
	}
	s.honest()
}

// TestFlood checks that strangers and a peer who fill their parts of the mailbox do not
// keep a message of another peer waiting, and that each poll takes what a mailbox may have.
func TestFlood(t *testing.T) {
	t.Parallel()
	var strangers []string
	for n := range 10 {
		strangers = append(strangers, fmt.Sprint("stranger", n))
	}
	s := newSiege(t, strangers...)
	for _, from := range append(strangers, "mallory", "eve") {
		in := s.engine.Intrude(from)
		for n := range 110 {
			m := &nats.Msg{Subject: "asl.box.bob." + from, Data: fmt.Appendf(nil, `{"id":"%s.%d","from":%q,"to":"bob","message":"flood"}`, from, n, from)}
			if a := in.Ask(m); strings.Contains(string(a.Data), "error") != (n >= 100) {
				t.Fatalf("%d of %s: %s", n, from, a.Data)
			}
		}
		in.Close()
	}
	carol := s.engine.Client("carol") // a peer
	for n := range 100 {
		s.send(carol, mesh.Message{ID: fmt.Sprint("carol", n), To: "bob", Text: "flood", Kind: mesh.KindNotice})
	}
	s.turns++
	s.send(s.alice, mesh.Message{ID: "honest1", To: "bob", Text: "honest1"})
	polls := 0
	for ; s.begunOf("honest1") == 0; polls++ {
		if polls > 20 {
			t.Fatal("an honest message does not come")
		}
		if _, err := s.Poll(t.Context(), cycle.PollOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("1,300 messages lay before an honest one: it had its turn in poll %d", polls)
	s.unharmed()
	state, err := s.Store.Read()
	if err != nil || len(state.Inbox) > 0 {
		t.Errorf("the inbox has %d messages, %v", len(state.Inbox), err)
	}
}

func (s *siege) begunOf(text string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun[text]
}

// TestRingsOfAFlood checks that a listener whom nobody stops ringing polls for a stranger
// once a minute, and for a peer at its own pace.
func TestRingsOfAFlood(t *testing.T) {
	t.Parallel()
	s := newSiege(t)
	s.honest() // it has a state
	// A peer may wake it ten times without a pause, and then at most eight times a second.
	const ofPeer = 10 + 2*8 + 1
	for _, test := range []struct {
		from, key string
		most      int64
	}{{"mallory", "mallory", 2}, {"alice", "mallory", 2}, {"alice", "alice", ofPeer}} {
		var polls atomic.Int64
		listening := make(chan struct{})
		done := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer close(done)
			s.WatchMesh(ctx, nil, func() { close(listening) }, func() { polls.Add(1) })
		}()
		<-listening
		in := s.engine.Intrude("mallory")
		sig := s.engine.Sign(test.key, "asl1 wakeup bob "+test.from+"\n", nil)
		rings := 0
		for end := time.Now().Add(2 * time.Second); time.Now().Before(end); rings += 100 {
			for range 100 {
				if err := in.PublishMsg(&nats.Msg{Subject: "cmd.agent.bob.wakeup", Header: nats.Header{"Asl-Sig": {sig}}, Data: []byte(test.from)}); err != nil {
					t.Fatal(err)
				}
			}
			in.Settle()
		}
		cancel()
		<-done
		if n := polls.Load(); n > test.most || n == 0 {
			t.Errorf("%d rings of %s, signed by %s, made %d polls within two seconds", rings, test.from, test.key, n)
		}
	}
	s.honest()
}
