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

// carrier has the methods of cycle.Carrier that these tests call on both meshes.
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

// testMesh is a mesh on the real server or in memory.
type testMesh struct {
	waiter
	Client        func(handle string) carrier // another process of an agent
	redeliverSoon func(handle string)         // makes messages come again soon if they are not acknowledged
	put           func(memcarrier.Letter)     // writes as a forger
}

// waiter tries something until it succeeds.
type waiter interface {
	Until(what string, try func(context.Context) error)
}

// onBothMeshes runs a test on the real server and in memory, because the simulator's mesh must do the
// same as the server.
func onBothMeshes(t *testing.T, play func(t *testing.T, e *testMesh)) {
	t.Parallel()
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		e := fleettest.Start(t, "alice", "bob", "carol")
		play(t, &testMesh{
			waiter: e, Client: func(handle string) carrier { return e.Client(handle) },
			redeliverSoon: func(handle string) { setAckWait(t, e, handle, 100*time.Millisecond) },
			put: func(l memcarrier.Letter) {
				if _, err := e.Conn(l.From).Post(t.Context(), l.To, l.ID, l.At, l.Body, false); err != nil {
					t.Fatal(err)
				}
			},
		})
	})
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		now := &steppingClock{t: t, begin: time.Now()}
		m := memcarrier.New(now.read)
		play(t, &testMesh{
			waiter: now, Client: func(handle string) carrier {
				return &memcarrier.Carrier{Mesh: m, Handle: handle, Host: "alpha"}
			},
			redeliverSoon: func(string) {},
			put: func(l memcarrier.Letter) {
				if _, err := m.Put(l); err != nil {
					t.Fatal(err)
				}
			},
		})
	})
}

// steppingClock is the clock of a mesh in memory. A minute passes before each further try.
type steppingClock struct {
	t      *testing.T
	begin  time.Time
	passed atomic.Int64
}

func (m *steppingClock) read() time.Time {
	return m.begin.Add(time.Duration(m.passed.Load()) * time.Minute)
}

func (m *steppingClock) Until(what string, try func(context.Context) error) {
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

// takeMany takes until n messages have come: the server delivers a message a moment after it has
// confirmed it to its sender.
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

// waitingCount returns how many messages wait for an agent. It closes the carrier.
func waitingCount(t testing.TB, c carrier) int {
	t.Helper()
	defer c.Close()
	s, err := c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s.Waiting
}

// waitUntilEmpty waits until a mailbox is empty, because Ack does not wait for the server.
func waitUntilEmpty(t testing.TB, p *testMesh, handle string) {
	t.Helper()
	p.Until("the mailbox is empty", func(context.Context) error {
		if n := waitingCount(t, p.Client(handle)); n > 0 {
			return fmt.Errorf("%d messages wait", n)
		}
		return nil
	})
}

// startWatch starts a watch of a minute and returns its mailbox.
func startWatch(t testing.TB, c carrier) <-chan mesh.Mailbox {
	heard := make(chan mesh.Mailbox, 1)
	go func() {
		box, err := c.Watch(t.Context(), time.Minute)
		if err != nil {
			t.Error(err)
		}
		heard <- box
	}()
	return heard
}

// fileOf returns the description of a file with this content.
func fileOf(content []byte) mesh.File {
	sum := sha256.Sum256(content)
	return mesh.File{SHA256: hex.EncodeToString(sum[:]), Name: "file.txt", Size: int64(len(content))}
}

// fetch returns the content of a file of alice.
func fetch(ctx context.Context, c carrier, f mesh.File) (content []byte, err error) {
	err = c.GetBlob(ctx, "alice", f, func(r io.Reader) (err error) {
		content, err = io.ReadAll(r)
		return err
	})
	return content, err
}

// TestMessagesArriveInOrder checks that messages arrive unchanged, oldest first, that Mailbox shows
// them without taking them, and that they are gone once they are acknowledged.
func TestMessagesArriveInOrder(t *testing.T) {
	onBothMeshes(t, func(t *testing.T, e *testMesh) {
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
				t.Fatalf("shown: %+v, %v", box, err)
			}
		}
		box := take(t, bob)
		if len(box.Messages) != len(sent) {
			t.Fatalf("a poll takes %+v", box)
		}
		for n, m := range box.Messages {
			want := sent[n]
			if !m.Proven || m.From != "alice" || m.To != "bob" || m.ID != want.ID || m.Text != want.Text || m.Correlation != want.Correlation || m.Epoch != want.Epoch ||
				len(m.Hops) != len(want.Hops) || len(m.ResultFields) != len(want.ResultFields) || len(m.Fields) != len(want.Fields) {
				t.Errorf("%+v came as %+v", want, m)
			}
			if age := time.Since(m.SentAt); age < -time.Minute || age > time.Minute {
				t.Errorf("%s was sent %v ago", m.ID, age)
			}
		}
		if again := take(t, bob); !again.Empty() {
			t.Errorf("messages without an acknowledgement came again at once: %+v", again)
		}
		ack(t, bob, box)
		if err := bob.Ack(t.Context(), "nobody sent this"); err != nil {
			t.Errorf("Ack of an unknown id: %v", err)
		}
		waitUntilEmpty(t, e, "bob")
	})
}

// setAckWait sets the time after which the server delivers a message again to an agent that has not
// acknowledged it.
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

// TestLostAcknowledgement checks that a message comes again until it is acknowledged, with the same
// key and to any process of the agent, and that a process can acknowledge a message of another one.
func TestLostAcknowledgement(t *testing.T) {
	onBothMeshes(t, func(t *testing.T, e *testMesh) {
		e.redeliverSoon("bob")
		id := send(t, e.Client("alice"), mesh.Message{To: "bob", Text: "hello"})
		first := takeMany(t, e, e.Client("bob"), 1)
		if len(first.Messages) != 1 {
			t.Fatalf("bob got %+v", first)
		}
		other := e.Client("bob")
		var again mesh.Mailbox
		e.Until("it comes again", func(ctx context.Context) (err error) {
			if again, err = other.Take(ctx); err == nil && again.Empty() {
				err = errors.New("the mailbox is empty")
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

// TestRepeatedSend checks that the server stores one of two equal messages.
func TestRepeatedSend(t *testing.T) {
	onBothMeshes(t, func(t *testing.T, e *testMesh) {
		m := mesh.Message{ID: "one", To: "bob", Text: "hello", SentAt: time.Now()}
		for range 3 {
			if id := send(t, e.Client("alice"), m); id != "one" {
				t.Errorf("it was sent as %q", id)
			}
		}
		if n := waitingCount(t, e.Client("bob")); n != 1 {
			t.Errorf("%d messages wait", n)
		}
		m.SentAt = m.SentAt.Add(time.Second) // by another clock: the receiver knows the id
		send(t, e.Client("alice"), m)
		bob := e.Client("bob")
		box := take(t, bob)
		if len(box.Messages) != 1 {
			t.Errorf("two messages of one sender with one id came as %d", len(box.Messages))
		}
		ack(t, bob, box)
		waitUntilEmpty(t, e, "bob")
	})
}

// TestFullMailbox checks the error of a sender whose part of a mailbox is full, and that other
// senders have room.
func TestFullMailbox(t *testing.T) {
	onBothMeshes(t, func(t *testing.T, e *testMesh) {
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

// TestRefusalsNameTheLimit checks that each refusal of the servers names the recipient, the limit that the
// message has met, and what the sender can do.
func TestRefusalsNameTheLimit(t *testing.T) {
	t.Parallel()
	e := fleettest.Start(t, "alice", "bob", "carol")
	alice := e.Client("alice")
	refused := func(err error, want ...string) {
		t.Helper()
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%v\nlacks %q", err, w)
			}
		}
	}
	_, err := alice.Send(t.Context(), mesh.Message{To: "bob", Text: strings.Repeat("x", mesh.MaxMessage)})
	refused(err, "send message to bob: answered 413: the message has 65", "the limit is 65536")
	refused(alice.Nudge(t.Context(), "bob", "", strings.Repeat("x", mesh.MaxMessage)), "nudge bob: answered 413: the message has 65", "the limit is 65536")
	for n := range 100 {
		send(t, alice, mesh.Message{ID: fmt.Sprint(n), To: "bob", Text: "hello"})
	}
	_, err = alice.Send(t.Context(), mesh.Message{To: "bob", Text: "one too many"})
	refused(err, "send message to bob: answered 503: "+e.Servers[0].Addr+": the mailbox of bob is full: it holds 100 of your messages", "try again after bob has read them")

	for _, stream := range []string{"ASL_BOX", "ASL_BLOB"} {
		var info struct {
			Config map[string]any `json:"config"`
		}
		e.Ask("STREAM.INFO."+stream, nil, &info)
		info.Config["max_bytes"] = 40_000
		e.Ask("STREAM.UPDATE."+stream, info.Config, nil)
	}
	_, err = alice.Send(t.Context(), mesh.Message{To: "carol", Text: strings.Repeat("x", 50_000)})
	refused(err, "send message to carol: answered 503: ", "no room for a message to carol (maximum bytes exceeded)", "of all agents, stream ASL_BOX, share 1024 MiB", "try again after agents have read")
	content := strings.Repeat("x", 50_000)
	err = alice.PutBlob(t.Context(), "carol", fmt.Sprintf("%x", sha256.Sum256([]byte(content))), int64(len(content)), strings.NewReader(content))
	refused(err, "upload file: answered 503: ", "no room for a file (maximum bytes exceeded)", "stream ASL_BLOB, share 4096 MiB", "after a week")
	refused(alice.PutBlob(t.Context(), "not*valid", strings.Repeat("0", 64), 0, nil), "upload file: answered 400: to is not a valid handle")
}

// TestSendErrors checks the refusals that need no server.
func TestSendErrors(t *testing.T) {
	onBothMeshes(t, func(t *testing.T, e *testMesh) {
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
		if n := waitingCount(t, e.Client("bob")); n != 0 {
			t.Errorf("%d messages wait", n)
		}
		_, err := alice.Send(t.Context(), mesh.Message{To: "nobody", Text: "x"})
		if err != nil {
			t.Errorf("to a handle without a mailbox: %v", err) // the message waits for the mailbox
		}
	})
}

// TestForeignMessages checks the messages of two senders with one id, a forged message, and a payload
// that is not a message.
func TestForeignMessages(t *testing.T) {
	onBothMeshes(t, func(t *testing.T, e *testMesh) {
		e.redeliverSoon("bob")
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
		waitUntilEmpty(t, e, "bob")
		const forged = `{"id":"forged","from":"alice","to":"bob","message":"of carol, who says that it is of alice"}`
		e.put(memcarrier.Letter{To: "bob", From: "carol", ID: "forged", At: at, Body: []byte(forged), Proven: true})
		e.put(memcarrier.Letter{To: "bob", From: "carol", ID: "broken", At: at, Body: []byte("no JSON"), Proven: true})
		e.put(memcarrier.Letter{To: "bob", From: "carol", ID: "own", At: at, Body: []byte(`{"id":"own","from":"carol","to":"bob","message":"hello"}`), Proven: true})
		e.Until("all come", func(ctx context.Context) (err error) {
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
			t.Errorf("a good message is %+v", m)
		}
		if u := box.Undecoded[0]; u.ID != undecoded || u.From != "carol" || string(u.Raw) != "no JSON" || u.Reason == "" {
			t.Errorf("a payload that is not a message is %+v", u)
		}
		ack(t, bob, box)
		waitUntilEmpty(t, e, "bob")
	})
}

// TestMeshStatus checks HALT, the registry and a listener.
func TestMeshStatus(t *testing.T) {
	onBothMeshes(t, func(t *testing.T, e *testMesh) {
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
		if box, err := bob.Watch(t.Context(), 0); err != nil || !box.Empty() {
			t.Fatalf("a listener that begins hears %+v, %v", box, err)
		}
		heard := startWatch(t, bob)
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

// TestManyMessages checks that polls take a large mailbox in parts and in order, and that a thousand
// messages without an acknowledgement do not delay others.
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
	onBothMeshes(t, func(t *testing.T, e *testMesh) {
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

// TestMailboxesOfACluster checks that a poll waits for the messages of a full pull, which a cluster
// ends before they arrive.
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

// TestWatchHearsRings checks that messages and nudges wake a listener, which takes none of them.
func TestWatchHearsRings(t *testing.T) {
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
		heard := startWatch(t, bob)
		if err := ring(); err != nil {
			t.Fatal(err)
		}
		if box := <-heard; len(box.Messages) != 1 || box.Messages[0].From != "alice" || !box.Messages[0].Proven || box.Messages[0].Kind != mesh.KindNudge {
			t.Errorf("%s woke with %+v", name, box)
		}
	}
	if n := waitingCount(t, e.Client("bob")); n != 2 {
		t.Errorf("%d messages wait after a watch", n)
	}
	// A new listener hears at once of waiting messages.
	if box, err := e.Client("bob").Watch(t.Context(), time.Minute); err != nil || len(box.Messages) != 1 || !box.Messages[0].Proven {
		t.Errorf("a listener that begins with a full mailbox: %+v, %v", box, err)
	}
}

// TestMailboxWaits checks that Mailbox waits for a message.
func TestMailboxWaits(t *testing.T) {
	onBothMeshes(t, func(t *testing.T, e *testMesh) {
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
		if n := waitingCount(t, e.Client("bob")); n != 1 {
			t.Errorf("%d messages wait", n)
		}
	})
}

// TestFilesArrive checks that files arrive unchanged, that wrong ones are refused, and that the
// server removes those of acknowledged messages.
func TestFilesArrive(t *testing.T) {
	onBothMeshes(t, func(t *testing.T, e *testMesh) {
		alice, bob := e.Client("alice"), e.Client("bob")
		for _, size := range []int{0, 1, 256 << 10, 256<<10 + 1, 5 << 20} {
			content := bytes.Repeat([]byte("agent"), size/5+1)[:size]
			f := fileOf(content)
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
			if got, err := fetch(t.Context(), bob, box.Messages[0].Files[0]); err != nil || !bytes.Equal(got, content) {
				t.Fatalf("get %d bytes: %d came, %v", size, len(got), err)
			}
			wrong := f
			wrong.Size++
			if _, err := fetch(t.Context(), bob, wrong); err == nil {
				t.Errorf("%d bytes were accepted as %d", size, wrong.Size)
			}
			ack(t, bob, box)
			e.Until("the file is gone", func(ctx context.Context) error {
				_, err := fetch(ctx, e.Client("bob"), f)
				if e, ok := errors.AsType[*mesh.Error](err); ok && e.Code == http.StatusNotFound {
					return nil
				}
				return fmt.Errorf("after it was acknowledged: %v", err)
			})
		}
	})
}

// TestChangedFile checks that a file with other bytes than a message names is refused.
func TestChangedFile(t *testing.T) {
	onBothMeshes(t, func(t *testing.T, e *testMesh) {
		f := fileOf([]byte("promised"))
		if err := e.Client("alice").PutBlob(t.Context(), "bob", f.SHA256, 8, strings.NewReader("ravenous")); err != nil {
			t.Fatal(err)
		}
		if _, err := fetch(t.Context(), e.Client("bob"), f); err == nil {
			t.Error("other bytes were accepted")
		}
	})
}
