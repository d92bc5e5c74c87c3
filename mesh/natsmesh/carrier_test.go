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
	"testing"
	"time"

	"agentstateloop/fleet"
	"agentstateloop/internal/testkit/fleettest"
	"agentstateloop/mesh"
	"agentstateloop/mesh/natsmesh"
	"agentstateloop/state"
)

func send(t testing.TB, c *natsmesh.Client, m mesh.Message) string {
	t.Helper()
	id, err := c.Send(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func take(t testing.TB, c *natsmesh.Client) mesh.Mailbox {
	t.Helper()
	mailbox, err := c.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return mailbox
}

// takeMany takes until so many messages came: the server hands out a message a moment after
// it has confirmed to its sender that it is stored.
func takeMany(t testing.TB, e *fleettest.Engine, c *natsmesh.Client, n int) mesh.Mailbox {
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

func ack(t testing.TB, c *natsmesh.Client, mailbox mesh.Mailbox) {
	t.Helper()
	for _, m := range mailbox.Messages {
		if err := c.Ack(t.Context(), m.ID); err != nil {
			t.Fatal(err)
		}
	}
	for _, u := range mailbox.Undecoded {
		if err := c.Ack(t.Context(), u.ID); err != nil {
			t.Fatal(err)
		}
	}
}

// waitingCount returns how many messages wait for an agent.
func waitingCount(t testing.TB, e *fleettest.Engine, handle string) int {
	t.Helper()
	c := e.Client(handle)
	defer c.Close()
	s, err := c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s.Waiting
}

// waitUntilEmpty waits until a mailbox is empty: nobody waits for an acknowledgement to arrive.
func waitUntilEmpty(t testing.TB, e *fleettest.Engine, handle string) {
	t.Helper()
	e.Until("the mailbox is empty", func(context.Context) error {
		if n := waitingCount(t, e, handle); n > 0 {
			return fmt.Errorf("%d messages wait", n)
		}
		return nil
	})
}

func texts(mailbox mesh.Mailbox) (all []string) {
	for _, m := range mailbox.Messages {
		all = append(all, m.Text)
	}
	return all
}

// TestMessages checks that what is sent comes as it was sent, oldest first, is shown to
// people without being taken, and is gone once it is acknowledged.
func TestMessages(t *testing.T) {
	t.Parallel()
	e := fleettest.Start(t, "alice", "bob")
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
		mailbox, err := bob.Mailbox(t.Context(), 0)
		if err != nil || len(mailbox.Messages) != 3 {
			t.Fatalf("people see %+v, %v", mailbox, err)
		}
	}
	mailbox := take(t, bob)
	if got := strings.Join(texts(mailbox), " "); got != "first second done" {
		t.Fatalf("a poll takes %q", got)
	}
	for n, m := range mailbox.Messages {
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
	ack(t, bob, mailbox)
	if err := bob.Ack(t.Context(), "nobody sent this"); err != nil {
		t.Errorf("Ack of what is gone: %v", err)
	}
	waitUntilEmpty(t, e, "bob")
}

// setAckWait has the server show what an agent has not acknowledged again that soon.
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
	t.Parallel()
	e := fleettest.Start(t, "alice", "bob")
	setAckWait(t, e, "bob", 100*time.Millisecond)
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
}

// TestRepeatedSend checks that the server keeps one of two messages that are the same.
func TestRepeatedSend(t *testing.T) {
	t.Parallel()
	e := fleettest.Start(t, "alice", "bob")
	m := mesh.Message{ID: "one", To: "bob", Text: "hello", SentAt: time.Now()}
	for range 3 {
		if id := send(t, e.Client("alice"), m); id != "one" {
			t.Errorf("it was sent as %q", id)
		}
	}
	if n := waitingCount(t, e, "bob"); n != 1 {
		t.Errorf("%d messages wait", n)
	}
	m.SentAt = m.SentAt.Add(time.Second) // as by a program that keeps no time: the receiver knows it
	send(t, e.Client("alice"), m)
	bob := e.Client("bob")
	mailbox := take(t, bob)
	if len(mailbox.Messages) != 1 {
		t.Errorf("two messages of one sender with one id came as %d", len(mailbox.Messages))
	}
	ack(t, bob, mailbox)
	waitUntilEmpty(t, e, "bob")
}

// TestFullMailbox checks what a sender hears whose part of a mailbox is full, and that
// other senders have room.
func TestFullMailbox(t *testing.T) {
	t.Parallel()
	e := fleettest.Start(t, "alice", "bob", "carol")
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
	mailbox := takeMany(t, e, bob, 101)
	if len(mailbox.Messages) != 101 || mailbox.Messages[0].ID != "0" || mailbox.Messages[100].From != "carol" {
		t.Fatalf("bob got %d messages", len(mailbox.Messages))
	}
	ack(t, bob, mailbox)
	e.Until("there is room again", func(ctx context.Context) error {
		_, err := alice.Send(ctx, mesh.Message{To: "bob", Text: "again"})
		return err
	})
}

// TestSendErrors checks the refusals that need no server.
func TestSendErrors(t *testing.T) {
	t.Parallel()
	e := fleettest.Start(t, "alice", "bob")
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
	if n := waitingCount(t, e, "bob"); n != 0 {
		t.Errorf("%d messages wait", n)
	}
	_, err := alice.Send(t.Context(), mesh.Message{To: "nobody", Text: "x"})
	if err != nil {
		t.Errorf("to a handle that has no mailbox yet: %v", err) // it finds it there when it is made
	}
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
		mailbox := take(t, bob)
		if len(mailbox.Messages) == 0 {
			break
		}
		if len(mailbox.Messages) > mesh.MaxMessages {
			t.Errorf("%d messages came at once", len(mailbox.Messages))
		}
		for _, m := range mailbox.Messages {
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
	t.Parallel()
	e := fleettest.Start(t, "alice", "bob")
	alice, bob := e.Client("alice"), e.Client("bob")
	for n := range 80 {
		send(t, alice, mesh.Message{ID: fmt.Sprint(n), To: "bob", Text: strings.Repeat("x", 60_000)})
	}
	first := take(t, bob)
	second := take(t, bob)
	if len(first.Messages) < 50 || len(first.Messages)*60_000 > mesh.MaxMailbox || len(first.Messages)+len(second.Messages) != 80 {
		t.Errorf("two polls took %d and %d messages", len(first.Messages), len(second.Messages))
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
		halts := make(chan bool, 1)
		go func() {
			mailbox, err := bob.Watch(t.Context(), time.Minute)
			halts <- err == nil && mailbox.Halted == halted
		}()
		set := alice.Halt
		if !halted {
			set = alice.Go
		}
		if err := set(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !<-halts {
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
	if mailbox, err := bob.Watch(t.Context(), 0); err != nil || !mailbox.Empty() {
		t.Fatalf("an empty mailbox: %+v, %v", mailbox, err)
	}
	for name, ring := range map[string]func() error{
		"a message": func() error {
			_, err := alice.Send(t.Context(), mesh.Message{To: "bob", Text: "hello"})
			return err
		},
		"a nudge": func() error { return alice.Nudge(t.Context(), "bob", "", "wake up") },
	} {
		results := make(chan mesh.Mailbox, 1)
		go func() {
			mailbox, err := bob.Watch(t.Context(), time.Minute)
			if err != nil {
				t.Error(err)
			}
			results <- mailbox
		}()
		if err := ring(); err != nil {
			t.Fatal(err)
		}
		if mailbox := <-results; len(mailbox.Messages) != 1 || mailbox.Messages[0].From != "alice" || !mailbox.Messages[0].Proven || mailbox.Messages[0].Kind != mesh.KindNudge {
			t.Errorf("%s woke with %+v", name, mailbox)
		}
	}
	if n := waitingCount(t, e, "bob"); n != 2 {
		t.Errorf("%d messages wait after somebody listened", n)
	}
	// What came while nobody listened is told at once.
	if mailbox, err := e.Client("bob").Watch(t.Context(), time.Minute); err != nil || len(mailbox.Messages) != 1 || !mailbox.Messages[0].Proven {
		t.Errorf("a listener that begins with a full mailbox: %+v, %v", mailbox, err)
	}
}

// TestMailboxWaits checks that people who wait for a message see it when it comes.
func TestMailboxWaits(t *testing.T) {
	t.Parallel()
	e := fleettest.Start(t, "alice", "bob")
	bob := e.Client("bob")
	seen := make(chan mesh.Mailbox, 1)
	go func() {
		mailbox, err := bob.Mailbox(t.Context(), time.Minute)
		if err != nil {
			t.Error(err)
		}
		seen <- mailbox
	}()
	send(t, e.Client("alice"), mesh.Message{To: "bob", Text: "hello"})
	if mailbox := <-seen; len(mailbox.Messages) != 1 || mailbox.Messages[0].Text != "hello" {
		t.Errorf("bob saw %+v", mailbox)
	}
	if n := waitingCount(t, e, "bob"); n != 1 {
		t.Errorf("%d messages wait", n)
	}
}

// TestFiles checks that files come as they were sent, that others are refused, and that
// the server keeps none that was acknowledged.
func TestFiles(t *testing.T) {
	t.Parallel()
	e := fleettest.Start(t, "alice", "bob")
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
		mailbox := takeMany(t, e, bob, 1)
		if len(mailbox.Messages) != 1 || len(mailbox.Messages[0].Files) != 1 {
			t.Fatalf("bob got %+v", mailbox)
		}
		var got []byte
		read := func(r io.Reader) (err error) {
			got, err = io.ReadAll(r)
			return err
		}
		if err := bob.GetBlob(t.Context(), "alice", mailbox.Messages[0].Files[0], read); err != nil || !bytes.Equal(got, content) {
			t.Fatalf("get %d bytes: %d came, %v", size, len(got), err)
		}
		wrong := f
		wrong.Size++
		if err := bob.GetBlob(t.Context(), "alice", wrong, read); err == nil {
			t.Errorf("%d bytes were taken for %d", size, wrong.Size)
		}
		ack(t, bob, mailbox)
		e.Until("the file is gone", func(ctx context.Context) error {
			err := e.Client("bob").GetBlob(ctx, "alice", f, read)
			if e, ok := errors.AsType[*mesh.Error](err); ok && e.Code == http.StatusNotFound {
				return nil
			}
			return fmt.Errorf("after it was acknowledged: %v", err)
		})
	}
}

// TestChangedFile checks that bytes which are not those that a message names are
// not taken for them.
func TestChangedFile(t *testing.T) {
	t.Parallel()
	e := fleettest.Start(t, "alice", "bob")
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
}
