package natsmesh_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentstateloop/fleet"
	"agentstateloop/internal/testkit/fleettest"
	"agentstateloop/internal/testkit/memcarrier"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// carrier has the methods of cycle.Carrier that both meshes are held to.
type carrier interface {
	Take(context.Context) (mesh.Mailbox, error)
	Mailbox(context.Context, time.Duration) (mesh.Mailbox, error)
	Watch(context.Context, time.Duration) (mesh.Mailbox, error)
	Ack(ctx context.Context, id string) error
	Send(context.Context, mesh.Message) (id string, err error)
	Nudge(ctx context.Context, handle, from, reason string) error
	Register(context.Context, mesh.Presence) error
	Online(context.Context) ([]mesh.Presence, error)
	Status(context.Context) (mesh.Status, error)
	Halt(context.Context) error
	Go(context.Context) error
	PutBlob(ctx context.Context, to, sum string, size int64, content io.Reader) error
	GetBlob(ctx context.Context, from string, f mesh.File, take func(io.Reader) error) error
	Close()
}

// place is a mesh whose carriers a test tries: on the real server, or in memory.
type place struct {
	waiter
	Client     func(handle string) carrier // another process of an agent
	comesAgain func(handle string)         // from now on what is not acknowledged comes again soon
	put        func(memcarrier.Letter)     // what a forger writes
}

// waiter tries something until it succeeds.
type waiter interface {
	Until(what string, try func(context.Context) error)
}

// conforms plays a test on the real server and in memory: what the simulator's mesh does is what
// the server does.
func conforms(t *testing.T, play func(t *testing.T, e *place)) {
	t.Parallel()
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		e := fleettest.Start(t, "alice", "bob", "carol")
		play(t, &place{
			waiter: e, Client: func(handle string) carrier { return e.Client(handle) },
			comesAgain: func(handle string) { setAckWait(t, e, handle, 100*time.Millisecond) },
			put: func(l memcarrier.Letter) {
				if _, err := e.Conn(l.From).Post(t.Context(), l.To, l.ID, l.At, l.Body, false); err != nil {
					t.Fatal(err)
				}
			},
		})
	})
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		now := &minutes{t: t, begin: time.Now()}
		m := memcarrier.New(now.read)
		play(t, &place{
			waiter: now, Client: func(handle string) carrier {
				return &memcarrier.Carrier{Mesh: m, Handle: handle, Host: "alpha"}
			},
			comesAgain: func(string) {},
			put: func(l memcarrier.Letter) {
				if _, err := m.Put(l); err != nil {
					t.Fatal(err)
				}
			},
		})
	})
}

// minutes is the clock of a mesh in memory. A minute passes before each further try.
type minutes struct {
	t      *testing.T
	begin  time.Time
	passed atomic.Int64
}

func (m *minutes) read() time.Time { return m.begin.Add(time.Duration(m.passed.Load()) * time.Minute) }

func (m *minutes) Until(what string, try func(context.Context) error) {
	m.t.Helper()
	err := try(m.t.Context())
	for range 5 {
		if err == nil {
			return
		}
		m.passed.Add(1)
		err = try(m.t.Context())
	}
	if err != nil {
		m.t.Fatalf("wait until %s: %v", what, err)
	}
}

func send(t testing.TB, c carrier, m mesh.Message) string {
	t.Helper()
	id, err := c.Send(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func take(t testing.TB, c carrier) mesh.Mailbox {
	t.Helper()
	box, err := c.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return box
}

// takeMany takes until so many messages came: the engine hands out a message a moment after
// it has confirmed to its sender that it is stored.
func takeMany(t testing.TB, e waiter, c carrier, n int) mesh.Mailbox {
	t.Helper()
	var all mesh.Mailbox
	e.Until(fmt.Sprintf("%d messages come", n), func(context.Context) error {
		all.Messages = append(all.Messages, take(t, c).Messages...)
		if len(all.Messages) < n {
			return fmt.Errorf("%d came: %+v", len(all.Messages), all.Messages)
		}
		return nil
	})
	return all
}

func ack(t testing.TB, c carrier, box mesh.Mailbox) {
	t.Helper()
	for _, m := range box.Messages {
		if err := c.Ack(t.Context(), m.ID); err != nil {
			t.Fatal(err)
		}
	}
	for _, u := range box.Undecoded {
		if err := c.Ack(t.Context(), u.ID); err != nil {
			t.Fatal(err)
		}
	}
}

// waits returns how many messages wait for an agent. It closes the carrier.
func waits(t testing.TB, c carrier) int {
	t.Helper()
	defer c.Close()
	s, err := c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s.Waiting
}

// empties waits until a mailbox is empty: nobody waits for an acknowledgement to arrive.
func empties(t testing.TB, p *place, handle string) {
	t.Helper()
	p.Until("the mailbox is empty", func(context.Context) error {
		if n := waits(t, p.Client(handle)); n > 0 {
			return fmt.Errorf("%d messages wait", n)
		}
		return nil
	})
}

func texts(box mesh.Mailbox) (all []string) {
	for _, m := range box.Messages {
		all = append(all, m.Text)
	}
	return all
}

// TestMessages checks that what is sent comes as it was sent, oldest first, is shown to
// people without being taken, and is gone once it is acknowledged.
func TestMessages(t *testing.T) {
	conforms(t, func(t *testing.T, e *place) {
		alice, bob := e.Client("alice"), e.Client("bob")
		sent := []mesh.Message{
			{ID: "one", To: "bob", Text: "first", Correlation: "c1", Hops: []string{"carol"}},
			{ID: "two", To: "bob", Text: "second", Kind: mesh.KindAsk, ResultFields: mesh.ResultFields{{Name: "verdict"}}},
			{ID: "three", To: "bob", Kind: mesh.KindReport, Text: "done", Status: "success", TurnID: "t1", Epoch: 3, Fields: mesh.Fields{{Name: "verdict", Value: json.RawMessage(`"yes"`)}}},
		}
		for _, m := range sent {
			send(t, alice, m)
		}
		for range 2 {
			box, err := bob.Mailbox(t.Context(), 0)
			if err != nil || len(box.Messages) != 3 {
				t.Fatalf("people see %+v, %v", box, err)
			}
		}
		box := take(t, bob)
		if got := strings.Join(texts(box), " "); got != "first second done" {
			t.Fatalf("a poll takes %q", got)
		}
		for n, m := range box.Messages {
			want := sent[n]
			if !m.Proven || m.From != "alice" || m.To != "bob" || m.ID != want.ID || m.Correlation != want.Correlation || m.Epoch != want.Epoch ||
				len(m.Hops) != len(want.Hops) || len(m.ResultFields) != len(want.ResultFields) || len(m.Fields) != len(want.Fields) {
				t.Errorf("%+v came as %+v", want, m)
			}
			if age := time.Since(m.SentAt); age < -time.Minute || age > time.Minute {
				t.Errorf("%s was sent %v ago", m.ID, age)
			}
		}
		if again := take(t, bob); !again.Empty() {
			t.Errorf("what is not acknowledged came again at once: %+v", again)
		}
		ack(t, bob, box)
		if err := bob.Ack(t.Context(), "nobody sent this"); err != nil {
			t.Errorf("Ack of what is gone: %v", err)
		}
		empties(t, e, "bob")
	})
}

// setAckWait has the engine show what an agent has not acknowledged again that soon.
func setAckWait(t testing.TB, e *fleettest.Engine, handle string, wait time.Duration) {
	t.Helper()
	c := fleet.Mailbox(handle)
	c.AckWait = wait
	body, err := json.Marshal(map[string]any{"stream_name": fleet.MailboxStream, "config": c, "action": "update"})
	if err != nil {
		t.Fatal(err)
	}
	admin := e.Conn("")
	defer admin.Close()
	a, err := admin.Request(t.Context(), "$JS.API.CONSUMER.DURABLE.CREATE."+fleet.MailboxStream+"."+handle, body, nil)
	if err != nil || bytes.Contains(a.Data, []byte(`"error"`)) {
		t.Fatalf("update the consumer: %s, %v", a.Data, err)
	}
}

// TestLostAcknowledgement checks that a message comes again until it is acknowledged,
// with the same key, and to whichever process asks; and that a process can acknowledge
// what another one was shown.
func TestLostAcknowledgement(t *testing.T) {
	conforms(t, func(t *testing.T, e *place) {
		e.comesAgain("bob")
		id := send(t, e.Client("alice"), mesh.Message{To: "bob", Text: "hello"})
		first := takeMany(t, e, e.Client("bob"), 1)
		if len(first.Messages) != 1 {
			t.Fatalf("bob got %+v", first)
		}
		other := e.Client("bob")
		var again mesh.Mailbox
		e.Until("it comes again", func(ctx context.Context) (err error) {
			if again, err = other.Take(ctx); err == nil && again.Empty() {
				err = errors.New("nothing comes")
			}
			return err
		})
		if again.Messages[0].Key() != first.Messages[0].Key() || again.Messages[0].SentAt != first.Messages[0].SentAt {
			t.Errorf("it came again as %+v, and first as %+v", again.Messages[0], first.Messages[0])
		}
		third := e.Client("bob")
		e.Until("another process can acknowledge it", func(ctx context.Context) error {
			if err := third.Ack(ctx, id); err != nil {
				return err
			}
			third.Close()
			third = e.Client("bob")
			if s, err := third.Status(ctx); err != nil || s.Waiting > 0 {
				return fmt.Errorf("%d wait, %v", s.Waiting, err)
			}
			return nil
		})
	})
}

// TestRepeatedSend checks that the engine keeps one of two messages that are the same.
func TestRepeatedSend(t *testing.T) {
	conforms(t, func(t *testing.T, e *place) {
		m := mesh.Message{ID: "one", To: "bob", Text: "hello", SentAt: time.Now()}
		for range 3 {
			if id := send(t, e.Client("alice"), m); id != "one" {
				t.Errorf("it was sent as %q", id)
			}
		}
		if n := waits(t, e.Client("bob")); n != 1 {
			t.Errorf("%d messages wait", n)
		}
		m.SentAt = m.SentAt.Add(time.Second) // as by a program that keeps no time: the receiver knows it
		send(t, e.Client("alice"), m)
		bob := e.Client("bob")
		box := take(t, bob)
		if len(box.Messages) != 1 {
			t.Errorf("two messages of one sender with one id came as %d", len(box.Messages))
		}
		ack(t, bob, box)
		empties(t, e, "bob")
	})
}

// TestFullMailbox checks what a sender hears whose part of a mailbox is full, and that
// other senders have room.
func TestFullMailbox(t *testing.T) {
	conforms(t, func(t *testing.T, e *place) {
		alice, bob := e.Client("alice"), e.Client("bob")
		for n := range 100 {
			send(t, alice, mesh.Message{ID: fmt.Sprint(n), To: "bob", Text: "hello"})
		}
		_, err := alice.Send(t.Context(), mesh.Message{To: "bob", Text: "one too many"})
		if e, ok := errors.AsType[*mesh.Error](err); !ok || e.Code != http.StatusServiceUnavailable || e.RetryAfter != time.Minute || !strings.Contains(err.Error(), "full") {
			t.Errorf("the 101st message: %v", err)
		}
		if err := alice.Nudge(t.Context(), "bob", "", "wake up"); err != nil {
			t.Errorf("a nudge to a full mailbox: %v", err)
		}
		send(t, e.Client("carol"), mesh.Message{To: "bob", Text: "from carol"})
		box := takeMany(t, e, bob, 101)
		if len(box.Messages) != 101 || box.Messages[0].ID != "0" || box.Messages[100].From != "carol" {
			t.Fatalf("bob got %d messages", len(box.Messages))
		}
		ack(t, bob, box)
		e.Until("there is room again", func(ctx context.Context) error {
			_, err := alice.Send(ctx, mesh.Message{To: "bob", Text: "again"})
			return err
		})
	})
}

// TestSendErrors checks the refusals that need no engine.
func TestSendErrors(t *testing.T) {
	conforms(t, func(t *testing.T, e *place) {
		alice := e.Client("alice")
		for name, test := range map[string]struct {
			m    mesh.Message
			code int
		}{
			"too large":       {mesh.Message{To: "bob", Text: strings.Repeat("x", mesh.MaxMessage)}, http.StatusRequestEntityTooLarge},
			"no recipient":    {mesh.Message{Text: "x"}, http.StatusBadRequest},
			"a wildcard":      {mesh.Message{To: "*", Text: "x"}, http.StatusBadRequest},
			"two tokens":      {mesh.Message{To: "bob.carol", Text: "x"}, http.StatusBadRequest},
			"another's name":  {mesh.Message{To: "bob", From: "carol", Text: "x"}, http.StatusBadRequest},
			"nothing in it":   {mesh.Message{To: "bob"}, http.StatusBadRequest},
			"unknown kind":    {mesh.Message{To: "bob", Text: "x", Kind: "letter"}, http.StatusBadRequest},
			"a nudge":         {mesh.Message{To: "bob", Text: "x", Kind: mesh.KindNudge}, http.StatusBadRequest},
			"an id of a line": {mesh.Message{ID: "a\nb", To: "bob", Text: "x"}, http.StatusBadRequest},
		} {
			_, err := alice.Send(t.Context(), test.m)
			if e, ok := errors.AsType[*mesh.Error](err); !ok || e.Code != test.code {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, err := range []error{
			alice.Nudge(t.Context(), "bob.carol", "", "x"), alice.Nudge(t.Context(), "bob", "carol", "x"),
			alice.Nudge(t.Context(), "bob", "", strings.Repeat("x", mesh.MaxMessage)),
		} {
			if e, ok := errors.AsType[*mesh.Error](err); !ok || e.Code < 400 || e.Code > 499 {
				t.Errorf("a nudge: %v", err)
			}
		}
		if n := waits(t, e.Client("bob")); n != 0 {
			t.Errorf("%d messages wait", n)
		}
		_, err := alice.Send(t.Context(), mesh.Message{To: "nobody", Text: "x"})
		if err != nil {
			t.Errorf("to a handle that has no mailbox yet: %v", err) // it finds it there when it is made
		}
	})
}

// TestForeignMessages checks what an agent sees of two senders with one id, of a message that is
// not its sender's, of a replay and of a payload that is not a message.
func TestForeignMessages(t *testing.T) {
	conforms(t, func(t *testing.T, e *place) {
		e.comesAgain("bob")
		alice, carol, bob, at := e.Client("alice"), e.Client("carol"), e.Client("bob"), time.Now()
		send(t, alice, mesh.Message{ID: "twin", To: "bob", Text: "of alice"})
		send(t, carol, mesh.Message{ID: "twin", To: "bob", Text: "of carol"})
		box := takeMany(t, e, bob, 2)
		if box.Messages[0].From != "alice" || box.Messages[1].From != "carol" || !box.Messages[1].Proven {
			t.Fatalf("of two messages with one id came %+v", box)
		}
		for range 2 { // as a process does whose predecessor died after its acknowledgement
			if err := bob.Ack(t.Context(), box.Messages[0].AckID); err != nil {
				t.Fatal(err)
			}
		}
		if box = takeMany(t, e, e.Client("bob"), 1); box.Messages[0].From != "carol" {
			t.Fatalf("after the acknowledgement of the other came %+v", box)
		}
		if err := bob.Ack(t.Context(), "twin"); err != nil { // by hand
			t.Fatal(err)
		}
		empties(t, e, "bob")
		const forged = `{"id":"forged","from":"alice","to":"bob","message":"of carol, who says that it is of alice"}`
		e.put(memcarrier.Letter{To: "bob", From: "carol", ID: "forged", At: at, Body: []byte(forged), Proven: true})
		e.put(memcarrier.Letter{To: "bob", From: "carol", ID: "broken", At: at, Body: []byte("no JSON"), Proven: true})
		e.put(memcarrier.Letter{To: "bob", From: "carol", ID: "own", At: at, Body: []byte(`{"id":"own","from":"carol","to":"bob","message":"hello"}`), Proven: true})
		e.Until("all of it comes", func(ctx context.Context) (err error) {
			if box, err = bob.Mailbox(ctx, 0); err == nil && len(box.Messages)+len(box.Undecoded) < 3 {
				err = fmt.Errorf("%+v came", box)
			}
			return err
		})
		const unproven = "unproven.5b73d3c79ae709682f73522620533a0a443f6af248d881a50612f0e35b65911e"
		const undecoded = "undecoded.aa4f7c4211510f9063eb95d414e8f1367ba7b514daa2aa98e2c63cf46f5f92dc"
		if m := box.Messages[0]; m.Proven || m.ID != unproven || m.From != "carol" || m.To != "bob" || m.Correlation != "forged" {
			t.Errorf("a message in another's name is %+v", m)
		}
		if m := box.Messages[1]; !m.Proven || m.Key() != "mesh:carol:own" {
			t.Errorf("a message as it should be is %+v", m)
		}
		if u := box.Undecoded[0]; u.ID != undecoded || u.From != "carol" || string(u.Raw) != "no JSON" || u.Reason == "" {
			t.Errorf("a payload that is not a message is %+v", u)
		}
		ack(t, bob, box)
		empties(t, e, "bob")
	})
}

// TestMeshStatus checks HALT, the registry and a listener.
func TestMeshStatus(t *testing.T) {
	conforms(t, func(t *testing.T, e *place) {
		alice, bob := e.Client("alice"), e.Client("bob")
		for set, halted := range map[string]bool{"HALT": true, "GO": false} {
			do := alice.Go
			if halted {
				do = alice.Halt
			}
			if err := do(t.Context()); err != nil {
				t.Fatal(err)
			}
			if box := take(t, bob); box.Halted != halted || box.HaltUnproven {
				t.Errorf("after %s a poll sees %+v", set, box)
			}
		}
		if err := alice.Register(t.Context(), mesh.Presence{Callsign: "@a", Phase: state.ACTIVE, Wake: "http://127.0.0.1/secret"}); err != nil {
			t.Fatal(err)
		}
		e.Until("both are shown", func(ctx context.Context) error {
			online, err := bob.Online(ctx)
			if err != nil || len(online) != 2 {
				return fmt.Errorf("%+v, %w", online, err)
			}
			if a, b := online[0], online[1]; a.Handle != "alice" || a.Callsign != "@a" || a.Phase != state.ACTIVE || a.Host != "alpha" || a.Wake != "" || b.Callsign != "@bob" {
				t.Errorf("they are shown as %+v", online)
			}
			return nil
		})
		heard := make(chan mesh.Mailbox, 1)
		if box, err := bob.Watch(t.Context(), 0); err != nil || !box.Empty() {
			t.Fatalf("a listener that begins hears %+v, %v", box, err)
		}
		go func() {
			box, err := bob.Watch(t.Context(), time.Minute)
			if err != nil {
				t.Error(err)
			}
			heard <- box
		}()
		send(t, alice, mesh.Message{To: "bob", Text: "hello"})
		if box := <-heard; len(box.Messages) != 1 || box.Messages[0].Kind != mesh.KindNudge || !box.Messages[0].Proven {
			t.Errorf("a message wakes with %+v", box)
		}
		if box, err := e.Client("bob").Watch(t.Context(), time.Minute); err != nil || len(box.Messages) != 1 {
			t.Errorf("a listener that begins with a message hears %+v, %v", box, err)
		}
		if s, err := alice.Status(t.Context()); err != nil || s.Online != 2 || s.Waiting != 0 || time.Since(s.Date).Abs() > time.Hour {
			t.Errorf("the mesh is %+v, %v", s, err)
		}
	})
}

// TestManyMessages checks that polls take a large mailbox in parts, in the order in which
// it was filled, and that a thousand messages that are not acknowledged hold up no others.
func TestManyMessages(t *testing.T) {
	t.Parallel()
	handles := []string{"bob"}
	for n := range 11 {
		handles = append(handles, fmt.Sprintf("sender%d", n))
	}
	e := fleettest.Start(t, handles...)
	var senders sync.WaitGroup
	for _, h := range handles[1:] {
		senders.Go(func() {
			c := e.Client(h)
			for n := range 100 {
				if _, err := c.Send(t.Context(), mesh.Message{ID: fmt.Sprint(h, ".", n), To: "bob", Text: "hello"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	senders.Wait()
	bob := e.Client("bob")
	bob.Timeout = 5 * time.Second
	seen, last := map[string]bool{}, map[string]time.Time{}
	for range 20 {
		box := take(t, bob)
		if len(box.Messages) == 0 {
			break
		}
		if len(box.Messages) > mesh.MaxMessages {
			t.Errorf("%d messages came at once", len(box.Messages))
		}
		for _, m := range box.Messages {
			if m.SentAt.Before(last[m.From]) {
				t.Errorf("%s came after a later one", m.ID)
			}
			seen[m.ID], last[m.From] = true, m.SentAt
		}
	}
	if len(seen) != 1100 {
		t.Errorf("%d of 1100 messages came", len(seen))
	}
}

// TestLargeMailbox checks that a poll takes no more bytes than a mailbox may have.
func TestLargeMailbox(t *testing.T) {
	conforms(t, func(t *testing.T, e *place) {
		alice, bob := e.Client("alice"), e.Client("bob")
		for n := range 80 {
			send(t, alice, mesh.Message{ID: fmt.Sprint(n), To: "bob", Text: strings.Repeat("x", 60_000)})
		}
		first := take(t, bob)
		second := take(t, bob)
		if len(first.Messages) < 50 || len(first.Messages)*60_000 > mesh.MaxMailbox || len(first.Messages)+len(second.Messages) != 80 {
			t.Errorf("two polls took %d and %d messages", len(first.Messages), len(second.Messages))
		}
	})
}

// TestMailboxesOfACluster checks that a poll waits for the messages of a pull that a cluster ends
// before they arrive, which it does with each that is full.
func TestMailboxesOfACluster(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"many": 1, "large": 60_000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := fleettest.StartCluster(t, "bob", "alice", "carol", "dora")
			sent, bob := 0, e.Client("bob")
			for _, h := range []string{"alice", "carol", "dora"} {
				c := e.Client(h)
				for range 80 {
					send(t, c, mesh.Message{ID: fmt.Sprint(sent), To: "bob", Text: strings.Repeat("x", size)})
					sent++
				}
			}
			for n, m := range takeMany(t, e, bob, sent).Messages {
				if m.ID != fmt.Sprint(n) {
					t.Fatalf("message %d has the id %s", n, m.ID)
				}
			}
		})
	}
}

// TestPresence checks who is shown, and where.
func TestPresence(t *testing.T) {
	t.Parallel()
	e := fleettest.Start(t, "alice", "bob", "carol")
	alice, bob := e.Client("alice"), e.Client("bob")
	bob.Host = "beta"
	if err := alice.Register(t.Context(), mesh.Presence{Callsign: "@alice", Phase: state.ACTIVE, Tier: state.TierNormal}); err != nil {
		t.Fatal(err)
	}
	take(t, bob)
	second := e.Client("bob")
	second.Host = "gamma"
	take(t, second)
	var online []mesh.Presence
	e.Until("both are shown", func(ctx context.Context) (err error) {
		if online, err = e.Client("carol").Online(ctx); err == nil && (len(online) != 2 || len(online[1].Hosts) != 2) {
			err = fmt.Errorf("%+v", online)
		}
		return err
	})
	if p := online[0]; p.Handle != "alice" || p.Phase != state.ACTIVE || p.Host != "alpha" {
		t.Errorf("alice is shown as %+v", p)
	}
	if p := online[1]; p.Handle != "bob" || p.Hosts[0].Host != "beta" || p.Hosts[1].Host != "gamma" || time.Since(p.SeenAt) > time.Minute {
		t.Errorf("bob is shown as %+v", p)
	}
	s, err := alice.Status(t.Context())
	if err != nil || s.Online != 2 || time.Since(s.Date) > time.Minute {
		t.Errorf("the mesh is %+v, %v", s, err)
	}
}

// TestHalt checks that HALT and GO of one agent reach all, those who poll and those who
// listen.
func TestHalt(t *testing.T) {
	t.Parallel()
	e := fleettest.Start(t, "alice", "bob")
	alice, bob := e.Client("alice"), e.Client("bob")
	if take(t, bob).Halted {
		t.Fatal("a new mesh is halted")
	}
	for _, halted := range []bool{true, false} {
		if _, err := bob.Watch(t.Context(), 0); err != nil { // it listens from now on
			t.Fatal(err)
		}
		heard := make(chan bool, 1)
		go func() {
			box, err := bob.Watch(t.Context(), time.Minute)
			heard <- err == nil && box.Halted == halted
		}()
		set := alice.Halt
		if !halted {
			set = alice.Go
		}
		if err := set(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !<-heard {
			t.Errorf("a listener did not hear that halted became %v", halted)
		}
		if take(t, bob).Halted != halted {
			t.Errorf("a poll did not hear that halted became %v", halted)
		}
	}
}

// TestWatch checks what wakes a listener, and that it takes nothing.
func TestWatch(t *testing.T) {
	t.Parallel()
	e := fleettest.Start(t, "alice", "bob")
	alice, bob := e.Client("alice"), e.Client("bob")
	if box, err := bob.Watch(t.Context(), 0); err != nil || !box.Empty() {
		t.Fatalf("an empty mailbox: %+v, %v", box, err)
	}
	for name, ring := range map[string]func() error{
		"a message": func() error {
			_, err := alice.Send(t.Context(), mesh.Message{To: "bob", Text: "hello"})
			return err
		},
		"a nudge": func() error { return alice.Nudge(t.Context(), "bob", "", "wake up") },
	} {
		heard := make(chan mesh.Mailbox, 1)
		go func() {
			box, err := bob.Watch(t.Context(), time.Minute)
			if err != nil {
				t.Error(err)
			}
			heard <- box
		}()
		if err := ring(); err != nil {
			t.Fatal(err)
		}
		if box := <-heard; len(box.Messages) != 1 || box.Messages[0].From != "alice" || !box.Messages[0].Proven || box.Messages[0].Kind != mesh.KindNudge {
			t.Errorf("%s woke with %+v", name, box)
		}
	}
	if n := waits(t, e.Client("bob")); n != 2 {
		t.Errorf("%d messages wait after somebody listened", n)
	}
	// What came while nobody listened is told at once.
	if box, err := e.Client("bob").Watch(t.Context(), time.Minute); err != nil || len(box.Messages) != 1 || !box.Messages[0].Proven {
		t.Errorf("a listener that begins with a full mailbox: %+v, %v", box, err)
	}
}

// TestMailboxWaits checks that people who wait for a message see it when it comes.
func TestMailboxWaits(t *testing.T) {
	conforms(t, func(t *testing.T, e *place) {
		bob := e.Client("bob")
		seen := make(chan mesh.Mailbox, 1)
		go func() {
			box, err := bob.Mailbox(t.Context(), time.Minute)
			if err != nil {
				t.Error(err)
			}
			seen <- box
		}()
		send(t, e.Client("alice"), mesh.Message{To: "bob", Text: "hello"})
		if box := <-seen; len(box.Messages) != 1 || box.Messages[0].Text != "hello" {
			t.Errorf("bob saw %+v", box)
		}
		if n := waits(t, e.Client("bob")); n != 1 {
			t.Errorf("%d messages wait", n)
		}
	})
}

// TestFiles checks that files come as they were sent, that others are refused, and that
// the engine keeps none that was acknowledged.
func TestFiles(t *testing.T) {
	conforms(t, func(t *testing.T, e *place) {
		alice, bob := e.Client("alice"), e.Client("bob")
		for _, size := range []int{0, 1, 256 << 10, 256<<10 + 1, 5 << 20} {
			content := bytes.Repeat([]byte("agent"), size/5+1)[:size]
			sum := sha256.Sum256(content)
			f := mesh.File{SHA256: hex.EncodeToString(sum[:]), Name: "file.txt", Size: int64(size)}
			for range 2 { // it may be repeated
				if err := alice.PutBlob(t.Context(), "bob", f.SHA256, f.Size, bytes.NewReader(content)); err != nil {
					t.Fatalf("put %d bytes: %v", size, err)
				}
			}
			send(t, alice, mesh.Message{To: "bob", Text: "see file", Files: []mesh.File{f}})
			box := takeMany(t, e, bob, 1)
			if len(box.Messages) != 1 || len(box.Messages[0].Files) != 1 {
				t.Fatalf("bob got %+v", box)
			}
			var got []byte
			read := func(r io.Reader) (err error) {
				got, err = io.ReadAll(r)
				return err
			}
			if err := bob.GetBlob(t.Context(), "alice", box.Messages[0].Files[0], read); err != nil || !bytes.Equal(got, content) {
				t.Fatalf("get %d bytes: %d came, %v", size, len(got), err)
			}
			wrong := f
			wrong.Size++
			if err := bob.GetBlob(t.Context(), "alice", wrong, read); err == nil {
				t.Errorf("%d bytes were taken for %d", size, wrong.Size)
			}
			ack(t, bob, box)
			e.Until("the file is gone", func(ctx context.Context) error {
				err := e.Client("bob").GetBlob(ctx, "alice", f, read)
				if e, ok := errors.AsType[*mesh.Error](err); ok && e.Code == http.StatusNotFound {
					return nil
				}
				return fmt.Errorf("after it was acknowledged: %v", err)
			})
		}
	})
}

// TestChangedFile checks that bytes which are not those that a message names are
// not taken for them.
func TestChangedFile(t *testing.T) {
	conforms(t, func(t *testing.T, e *place) {
		sum := sha256.Sum256([]byte("promised"))
		f := mesh.File{SHA256: hex.EncodeToString(sum[:]), Name: "file.txt", Size: 8}
		if err := e.Client("alice").PutBlob(t.Context(), "bob", f.SHA256, 8, strings.NewReader("ravenous")); err != nil {
			t.Fatal(err)
		}
		err := e.Client("bob").GetBlob(t.Context(), "alice", f, func(r io.Reader) error {
			_, err := io.Copy(io.Discard, r)
			return err
		})
		if err == nil {
			t.Error("other bytes were taken for those that the message names")
		}
	})
}
