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

// TestPendingMessages checks that an id belongs to its first sender until it is acknowledged, and
// that the newest delivery is acknowledged.
func TestPendingMessages(t *testing.T) {
	c := &Client{pulledAt: noon}
	first := mesh.Message{ID: "m", From: "alice", Proven: true, Files: []mesh.File{{SHA256: "1"}}}
	if !c.addPending(first, fleet.Item{Body: []byte("old")}) {
		t.Fatal("it is not pending")
	}
	c.pulledAt = noon.Add(time.Minute)
	if !c.addPending(first, fleet.Item{Body: []byte("new")}) || len(c.pending["m"].items) != 1 || string(c.pending["m"].items[0].Body) != "new" || c.pending["m"].shownAt != c.pulledAt {
		t.Errorf("%+v", c.pending["m"])
	}
	for _, other := range []mesh.Message{{ID: "m", From: "bob", Proven: true}, {ID: "m", From: "alice"}} {
		if c.addPending(other, fleet.Item{}) {
			t.Errorf("%+v is pending too", other)
		}
	}
	f := fileOf{"alice", "1"}
	c.files = map[fileOf]*fleet.Blob{f: nil}
	if c.removeFiles(t.Context(), &pending{files: []fileOf{f}}); len(c.files) != 1 {
		t.Error("a file that another message names is forgotten")
	}
	delete(c.pending, "m")
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
