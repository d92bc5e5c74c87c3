package natsmesh_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"agentstateloop/internal/testkit/fleettest"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// wantMeshError checks that an error is a temporary one of the mesh, with these words.
func wantMeshError(t *testing.T, err error, words string) {
	t.Helper()
	var credential *state.CredentialError
	if e, ok := errors.AsType[*mesh.Error](err); !ok || errors.As(err, &credential) || e.Code >= 400 && e.Code < 500 || !strings.Contains(err.Error(), words) {
		t.Errorf("%v, want an error of the mesh with %q", err, words)
	}
}

// TestRefusedKey checks that a key which the server refuses, or which lacks a right, is a credential
// failure, and that the next call reads the key again.
func TestRefusedKey(t *testing.T) {
	t.Parallel()
	e := fleettest.Start(t, "alice", "bob")
	alice := e.Client("alice")
	right := alice.Seed
	for _, test := range []struct {
		handle string
		seed   func(context.Context) (string, error)
		words  string
	}{
		{"alice", func(context.Context) (string, error) { return fleettest.NewKey(t).Seed, nil }, "key refused"},
		{"bob", right, "lacks a right"},
		{"alice", func(context.Context) (string, error) { return "", errors.New("no such file") }, "no such file"},
	} {
		c := e.Client("alice")
		c.Handle, c.Seed = test.handle, test.seed
		_, takes := c.Take(t.Context())
		_, sends := c.Send(t.Context(), mesh.Message{To: "alice", Text: "x"})
		_, watches := c.Watch(t.Context(), 0)
		for _, err := range []error{takes, sends, watches} {
			if e, ok := errors.AsType[*state.CredentialError](err); !ok || e.Name != state.CredentialMesh || !strings.Contains(err.Error(), test.words) {
				t.Errorf("%v, want a credential failure with %q", err, test.words)
			}
		}
	}
	wrong := true
	alice.Seed = func(ctx context.Context) (string, error) {
		if wrong {
			return fleettest.NewKey(t).Seed, nil
		}
		return right(ctx)
	}
	if _, err := alice.Take(t.Context()); err == nil {
		t.Error("a wrong key is accepted")
	}
	wrong = false
	take(t, alice)
}

// TestServerAway checks the errors for a server that is down, or silent until after the timeout, and
// that a message that it accepted after the timeout is not stored twice.
func TestServerAway(t *testing.T) {
	t.Parallel()
	e := fleettest.Start(t, "alice", "bob")
	alice := e.Client("alice")
	alice.Timeout = time.Second
	take(t, alice) // opens a connection
	late := mesh.Message{ID: "late", To: "bob", Text: "hello", SentAt: time.Now()}
	e.Servers[0].Stop()
	_, err := alice.Send(t.Context(), late)
	wantMeshError(t, err, "no answer")
	_, err = alice.Take(t.Context())
	wantMeshError(t, err, "no answer")
	e.Servers[0].Continue()
	e.Until("it answers", func(ctx context.Context) error {
		_, err := alice.Send(ctx, late)
		return err
	})
	if n := waitingCount(t, e.Client("bob")); n != 1 {
		t.Errorf("%d messages wait", n)
	}
	e.Servers[0].Kill()
	_, err = alice.Take(t.Context())
	wantMeshError(t, err, "connection refused")
	e.Servers[0].Start()
	take(t, alice)
	if n := waitingCount(t, e.Client("bob")); n != 1 {
		t.Errorf("%d messages wait after a restart", n)
	}
}

// TestNoQuorum checks the errors while two of three servers are down, and that messages arrive when
// they are back.
func TestNoQuorum(t *testing.T) {
	t.Parallel()
	e := fleettest.StartCluster(t, "alice", "bob")
	alice := e.Client("alice")
	alice.Timeout = 3 * time.Second
	send(t, alice, mesh.Message{To: "bob", Text: "before"})
	for _, s := range e.Servers[:2] {
		s.Kill()
	}
	_, err := alice.Send(t.Context(), mesh.Message{ID: "during", To: "bob", Text: "during", SentAt: time.Now()})
	wantMeshError(t, err, "")
	if _, err = alice.Take(t.Context()); err != nil { // the last server may not know yet
		wantMeshError(t, err, "")
	}
	for _, s := range e.Servers[:2] {
		s.Start()
	}
	e.Until("messages are accepted again", func(ctx context.Context) error {
		_, err := alice.Send(ctx, mesh.Message{ID: "after", To: "bob", Text: "after"})
		return err
	})
	got := map[string]bool{}
	bob := e.Client("bob")
	e.Until("both have come", func(ctx context.Context) error {
		box, err := bob.Take(ctx)
		for _, m := range box.Messages {
			got[m.Text] = true
		}
		if err == nil && (!got["before"] || !got["after"]) {
			err = errors.New("they have not")
		}
		return err
	})
}

// TestFullServer checks that a server without room for a message is a temporary error, and that it
// accepts the message when there is room.
func TestFullServer(t *testing.T) {
	t.Parallel()
	e := fleettest.Start(t, "alice", "bob")
	alice, root := e.Client("alice"), e.Intrude("")
	limit := func(bytes int) {
		t.Helper()
		a := root.Ask(&nats.Msg{Subject: "$JS.API.STREAM.INFO.ASL_BOX"})
		var info struct {
			Config map[string]any `json:"config"`
		}
		if err := json.Unmarshal(a.Data, &info); err != nil {
			t.Fatal(err)
		}
		info.Config["max_bytes"] = bytes
		body, err := json.Marshal(info.Config)
		if err != nil {
			t.Fatal(err)
		}
		if a := root.Ask(&nats.Msg{Subject: "$JS.API.STREAM.UPDATE.ASL_BOX", Data: body}); strings.Contains(string(a.Data), `"error"`) {
			t.Fatalf("%s", a.Data)
		}
	}
	limit(600)
	send(t, alice, mesh.Message{To: "bob", Text: "first"})
	second := mesh.Message{ID: "second", To: "bob", Text: strings.Repeat("second", 50), SentAt: time.Now()}
	_, err := alice.Send(t.Context(), second)
	wantMeshError(t, err, "")
	if e, ok := errors.AsType[*mesh.Error](err); !ok || e.Code != http.StatusServiceUnavailable || e.RetryAfter != time.Minute {
		t.Errorf("a full server: %v", err)
	}
	limit(1 << 20)
	send(t, alice, second)
	if box := takeMany(t, e, e.Client("bob"), 2); len(box.Messages) != 2 {
		t.Errorf("bob got %d messages", len(box.Messages))
	}
}
