package natsmesh_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"agentstateloop/fleet"
	"agentstateloop/internal/testkit/fleettest/memory"
	"agentstateloop/mesh"
	"agentstateloop/mesh/natsmesh"
	"agentstateloop/state"
)

// inMemory starts a server in memory, and returns a client of it for each handle.
func inMemory(t *testing.T, replicas int, handles ...string) (e *memory.Engine, clients []*natsmesh.Client) {
	t.Helper()
	seeds, public := map[string]string{}, map[string]string{}
	for _, h := range handles {
		var err error
		if seeds[h], public[h], err = fleet.NewKey(); err != nil {
			t.Fatal(err)
		}
	}
	e = memory.New(memory.Options{Users: public, Replicas: replicas})
	for _, h := range handles {
		c := &natsmesh.Client{
			URL: "nats://127.0.0.1:4222", Handle: h, Host: "alpha", Keys: public, Timeout: time.Minute,
			Seed: func(context.Context) (string, error) { return seeds[h], nil },
			Dial: func(context.Context, string, string) (net.Conn, error) {
				client, server := net.Pipe()
				go e.Serve(server)
				return client, nil
			},
		}
		t.Cleanup(c.Close)
		clients = append(clients, c)
	}
	return e, clients
}

// TestServerInMemory checks that all that agents do with one another works on a server
// in memory as on a real one, also after it was started again.
func TestServerInMemory(t *testing.T) {
	t.Parallel()
	for _, replicas := range []int{1, 3} {
		t.Run(fmt.Sprint(replicas), func(t *testing.T) {
			t.Parallel()
			e, clients := inMemory(t, replicas, "alice", "bob")
			alice, bob := clients[0], clients[1]
			if mailbox, err := bob.Watch(t.Context(), 0); err != nil || !mailbox.Empty() {
				t.Fatalf("an empty mailbox: %+v, %v", mailbox, err)
			}
			results := make(chan mesh.Mailbox, 1)
			go func() {
				mailbox, err := bob.Watch(t.Context(), time.Minute)
				if err != nil {
					t.Error(err)
				}
				results <- mailbox
			}()
			content := bytes.Repeat([]byte("agent"), 100_000)
			sum := sha256.Sum256(content)
			f := mesh.File{SHA256: hex.EncodeToString(sum[:]), Name: "file.txt", Size: int64(len(content))}
			if err := alice.PutBlob(t.Context(), "bob", f.SHA256, f.Size, bytes.NewReader(content)); err != nil {
				t.Fatal(err)
			}
			send(t, alice, mesh.Message{ID: "one", To: "bob", Text: "hello", Files: []mesh.File{f}})
			if mailbox := <-results; len(mailbox.Messages) != 1 || !mailbox.Messages[0].Proven {
				t.Errorf("a listener heard %+v", mailbox)
			}
			e.Restart()
			mailbox := take(t, bob)
			if len(mailbox.Messages) != 1 || mailbox.Messages[0].Text != "hello" || !mailbox.Messages[0].Proven || len(mailbox.Messages[0].Files) != 1 {
				t.Fatalf("bob got %+v", mailbox)
			}
			var got []byte
			read := func(r io.Reader) (err error) {
				got, err = io.ReadAll(r)
				return err
			}
			if err := bob.GetBlob(t.Context(), "alice", f, read); err != nil || !bytes.Equal(got, content) {
				t.Fatalf("%d bytes of the file came, %v", len(got), err)
			}
			ack(t, bob, mailbox)
			if s, err := bob.Status(t.Context()); err != nil || s.Waiting != 0 || len(e.Messages(fleet.MailboxStream)) != 0 {
				t.Errorf("after it was acknowledged: %+v, %v; the server holds %v", s, err, e.Messages(fleet.MailboxStream))
			}
			if err := alice.Register(t.Context(), mesh.Presence{Callsign: "@alice", Phase: state.ACTIVE}); err != nil {
				t.Fatal(err)
			}
			online, err := bob.Online(t.Context())
			if err != nil || len(online) != 2 || online[0].Handle != "alice" || online[0].Phase != state.ACTIVE {
				t.Errorf("online: %+v, %v", online, err)
			}
			if err := alice.Halt(t.Context()); err != nil {
				t.Fatal(err)
			}
			if mailbox := take(t, bob); !mailbox.Halted {
				t.Error("a poll did not hear of HALT")
			}
		})
	}
}

// TestFullMailboxInMemory checks that a server in memory refuses the 101st message of a
// sender.
func TestFullMailboxInMemory(t *testing.T) {
	t.Parallel()
	_, clients := inMemory(t, 1, "alice", "bob")
	for n := range 100 {
		send(t, clients[0], mesh.Message{ID: fmt.Sprint(n), To: "bob", Text: "hello"})
	}
	_, err := clients[0].Send(t.Context(), mesh.Message{To: "bob", Text: "one too many"})
	if e, ok := errors.AsType[*mesh.Error](err); !ok || e.Code != http.StatusServiceUnavailable {
		t.Errorf("the 101st message: %v", err)
	}
	if mailbox := take(t, clients[1]); len(mailbox.Messages) != 100 {
		t.Errorf("%d messages came", len(mailbox.Messages))
	}
}

// TestClusterMailboxesInMemory checks that a poll waits for the messages of a pull that
// a cluster ends before they arrive, which it does with each that is full.
func TestClusterMailboxesInMemory(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"many": 1, "large": 60_000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, clients := inMemory(t, 3, "bob", "alice", "carol", "dora")
			sent := 0
			for _, c := range clients[1:] {
				for range 80 {
					send(t, c, mesh.Message{ID: fmt.Sprint(sent), To: "bob", Text: strings.Repeat("x", size)})
					sent++
				}
			}
			received := 0
			for range 6 {
				mailbox := take(t, clients[0])
				for _, m := range mailbox.Messages {
					if m.ID != fmt.Sprint(received) {
						t.Fatalf("message %d has the id %s", received, m.ID)
					}
					received++
				}
			}
			if received != sent {
				t.Errorf("%d messages of %d came", received, sent)
			}
		})
	}
}

// TestAnnounceNamesTheHost checks that the end of a turn is announced with the host of the
// client, also if the task names another one.
func TestAnnounceNamesTheHost(t *testing.T) {
	t.Parallel()
	e, clients := inMemory(t, 1, "alice")
	if err := clients[0].Announce(t.Context(), mesh.Task{Agent: "alice", Host: "elsewhere"}); err != nil {
		t.Fatal(err)
	}
	if all := e.Messages(fleet.EventStream); len(all) != 1 || !bytes.Contains(all[0].Body, []byte(`"host":"alpha"`)) {
		t.Errorf("%+v", all)
	}
}
