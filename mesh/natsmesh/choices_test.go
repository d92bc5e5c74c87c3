package natsmesh

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"agentstateloop/fleet"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// TestPendingMessages checks that the newest delivery of a message is acknowledged, and that an id
// names the messages of all senders, an AckID only one.
func TestPendingMessages(t *testing.T) {
	c := &Client{pulledAt: noon}
	first := mesh.Message{ID: "m", From: "alice", AckID: "alice/m", Files: []mesh.File{{SHA256: "1"}}}
	c.addPending(first, fleet.Item{Body: []byte("old")})
	c.pulledAt = noon.Add(time.Minute)
	c.addPending(first, fleet.Item{Body: []byte("new")})
	if h := c.pending["alice/m"]; len(h.items) != 1 || string(h.items[0].Body) != "new" || h.shownAt != c.pulledAt {
		t.Errorf("%+v", h)
	}
	c.addPending(mesh.Message{ID: "m", From: "bob", AckID: "bob/m"}, fleet.Item{})
	if all, one := c.named("m"), c.named("bob/m"); len(all) != 2 || len(one) != 1 {
		t.Errorf("m names %q, bob/m %q", all, one)
	}
	f := fileOf{"alice", "1"}
	c.files = map[fileOf]*fleet.Blob{f: nil}
	if c.removeFiles(t.Context(), &pending{files: []fileOf{f}}); len(c.files) != 1 {
		t.Error("a file that another message names is forgotten")
	}
	delete(c.pending, "alice/m")
	if c.removeFiles(t.Context(), &pending{files: []fileOf{f}}); len(c.files) != 0 {
		t.Error("a file that no message names is not forgotten")
	}
}

// TestErrorPrecedence checks which of two errors of a call counts.
func TestErrorPrecedence(t *testing.T) {
	full := fleet.Error{Code: 503, Number: 10077, Err: errors.New("no room")}
	e, ok := errors.AsType[*mesh.Error](failure("send", &full))
	if !ok || e.Code != http.StatusServiceUnavailable || e.RetryAfter != time.Minute {
		t.Errorf("a full mailbox: %+v", e)
	}
	full.Code, full.Denied = 400, true
	if _, ok := errors.AsType[*state.CredentialError](failure("send", &full)); !ok {
		t.Error("a refused key is not a credential failure")
	}
	if full.Denied = false; errors.As(failure("send", &full), &e) && e.Code != http.StatusServiceUnavailable {
		t.Errorf("a full mailbox: %+v", e)
	}
}

// TestNewestRowCounts checks that the newest of two rows of the registry counts, and corrects a clock
// that is behind.
func TestNewestRowCounts(t *testing.T) {
	old := fleet.Row{Handle: "bob", Host: "alpha", Stored: noon.Add(-time.Minute)}
	row := fleet.Row{Handle: "bob", Stored: noon, Body: []byte(`{"callsign":"Bob","host":"Not A Host"}`)}
	for _, rows := range [][]fleet.Row{{old, row}, {row, old}} {
		if p := (keyring{}).agents(rows, noon)[0]; !p.SeenAt.Equal(noon) || p.Callsign != "Bob" || p.Host != "" {
			t.Errorf("%+v", p)
		}
	}
	gone := fleet.Row{Handle: "alice", Stored: noon.Add(-40 * time.Minute)}
	if seen := (keyring{}).agents([]fleet.Row{gone, row}, noon.Add(-30*time.Minute)); !seen[0].Away || seen[1].Away {
		t.Errorf("with a clock that is behind: %+v", seen)
	}
}
