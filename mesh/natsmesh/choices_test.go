package natsmesh

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentstateloop/fleet"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// TestMessageOrMailboxFields checks which of two sources counts where a message that alice signed, and
// the mailbox that it is in, say the same thing.
func TestMessageOrMailboxFields(t *testing.T) {
	alice, bob := clients(t, func() time.Time { return noon })
	bob.Keys["bob"] = bob.Keys["alice"] // our own key is not looked up
	for name, tt := range map[string]struct {
		id, body string
		at       time.Time
		want     string // proven, id, from, to, correlation, when
	}{
		"as sent":             {"m1", `{"id":"m1","from":"alice","to":"bob"}`, noon, "true m1 alice bob  1 12:00"},
		"another sender":      {"m2", `{"id":"m2","from":"mallory","to":"bob"}`, noon, "false unproven alice bob m2 1 12:00"},
		"another recipient":   {"m3", `{"id":"m3","from":"alice","to":"carol"}`, noon, "false unproven alice bob m3 1 12:00"},
		"another id":          {"m4", `{"id":"m5","from":"alice","to":"bob"}`, noon, "false unproven alice bob m5 1 12:00"},
		"signed long before":  {"m6", `{"id":"m6","from":"alice","to":"bob"}`, noon.Add(-8 * 24 * time.Hour), "false unproven alice bob m6 1 12:00"},
		"signed before":       {"m7", `{"id":"m7","from":"alice","to":"bob"}`, noon.Add(-6 * 24 * time.Hour), "true m7 alice bob  1 12:00"},
		"signed long after":   {"m8", `{"id":"m8","from":"alice","to":"bob"}`, noon.Add(6 * 24 * time.Hour), "false unproven alice bob m8 1 12:00"},
		"an unproven id":      {"unproven.1", `{"id":"unproven.1","from":"alice","to":"bob"}`, noon, "false unproven alice bob unproven.1 1 12:00"},
		"an undecoded id":     {"undecoded.1", `{"id":"undecoded.1","from":"alice","to":"bob"}`, noon, "false unproven alice bob undecoded.1 1 12:00"},
		"an answer":           {"m9", `{"id":"m9","from":"alice","to":"bob","correlation_id":"c"}`, noon, "true m9 alice bob c 1 12:00"},
		"an unproven answer":  {"m10", `{"id":"m10","from":"mallory","to":"bob","correlation_id":"c"}`, noon, "false unproven alice bob c 1 12:00"},
		"a file that is gone": {"m11", `{"id":"m11","from":"alice","to":"bob","files":[{"name":"a","missing":"a lie"}]}`, noon, "true m11 alice bob  1 12:00"},
	} {
		if _, err := alice.server().Post(t.Context(), "bob", tt.id, tt.at, []byte(tt.body), false); err != nil {
			t.Fatal(err)
		}
		mailbox, err := bob.Take(t.Context())
		if err != nil || len(mailbox.Messages) != 1 {
			t.Fatalf("%s: %+v, %v", name, mailbox, err)
		}
		m := mailbox.Messages[0]
		id, _, _ := strings.Cut(m.ID, ".")
		if got := fmt.Sprint(m.Proven, " ", id, " ", m.From, " ", m.To, " ", m.Correlation, " ", m.SentAt.Format("2 15:04")); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
		if len(m.Files) > 0 && m.Files[0].Missing != "" {
			t.Errorf("%s: the sender says that it is missing", name)
		}
		if err := bob.Ack(t.Context(), m.ID); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := bob.server().Post(t.Context(), "bob", "own", noon, []byte(`{"id":"own","from":"bob","to":"bob"}`), false); err != nil {
		t.Fatal(err)
	}
	if mailbox, err := bob.Take(t.Context()); err != nil || len(mailbox.Messages) != 1 || !mailbox.Messages[0].Proven {
		t.Errorf("a message to oneself: %+v, %v", mailbox, err)
	}
	if err := bob.Ack(t.Context(), "own"); err != nil {
		t.Fatal(err)
	}
	if _, err := alice.server().Post(t.Context(), "bob", "broken", noon, []byte("no JSON"), false); err != nil {
		t.Fatal(err)
	}
	mailbox, err := bob.Take(t.Context())
	if err != nil || len(mailbox.Undecoded) != 1 || mailbox.Undecoded[0].From != "alice" || bob.pending[mailbox.Undecoded[0].ID] == nil {
		t.Errorf("what is not a message: %+v, %v", mailbox, err)
	}
}

// TestSendDefaults checks which of two sources counts where a sender may say something, or
// leave it out.
func TestSendDefaults(t *testing.T) {
	now := newClock(noon)
	alice, bob := clients(t, now.read)
	for i := range 2 { // the second is a repeat, which the server knows by the time that is signed
		now.set(noon.Add(time.Duration(i) * time.Minute))
		if id, err := alice.Send(t.Context(), mesh.Message{ID: "m", To: "bob", Kind: mesh.KindAsk, Text: "x", SentAt: noon}); err != nil || id != "m" {
			t.Fatalf("%s, %v", id, err)
		}
	}
	mailbox, err := bob.Take(t.Context())
	if err != nil || len(mailbox.Messages) != 1 || mailbox.Messages[0].Kind != mesh.KindAsk || len(bob.pending["m"].items) != 1 {
		t.Errorf("%+v, %v", mailbox, err)
	}
	if _, err := alice.Send(t.Context(), mesh.Message{From: "bob", To: "bob", Text: "x"}); err == nil {
		t.Error("alice sent in the name of bob")
	}
	if err := alice.Nudge(t.Context(), "bob", "bob", "x"); err == nil {
		t.Error("alice nudged in the name of bob")
	}
	for _, known := range []bool{true, false} {
		if !known {
			delete(bob.Keys, "alice")
		}
		if err := bob.Ack(t.Context(), "m"); err != nil {
			t.Fatal(err)
		}
		if _, err := bob.Watch(t.Context(), 0); err != nil { // it hears what rings from now on
			t.Fatal(err)
		}
		if err := alice.server().Ring(t.Context(), "bob"); err != nil {
			t.Fatal(err)
		}
		result, err := bob.Watch(t.Context(), time.Minute)
		if err != nil || len(result.Messages) != 1 || result.Messages[0].From != "alice" || result.Messages[0].Proven != known {
			t.Errorf("rung by alice, whose key is known: %t: %+v, %v", known, result, err)
		}
	}
}

// TestNewestRowWins checks which of two sources counts in the registry. A row that has
// not changed, and is published again, shows that its agent was there later.
func TestNewestRowWins(t *testing.T) {
	now := newClock(noon.Add(-40 * time.Minute))
	alice, bob := clients(t, now.read)
	alice.Now = func() time.Time { return noon.Add(-30 * time.Minute) } // behind the clock of the server
	for _, register := range []struct {
		c  *Client
		at time.Time
	}{{bob, noon.Add(-time.Hour)}, {alice, noon.Add(-40 * time.Minute)}, {bob, noon}} {
		now.set(register.at)
		if err := register.c.Register(t.Context(), mesh.Presence{Host: "elsewhere"}); err != nil {
			t.Fatal(err)
		}
	}
	seen, err := alice.Seen(t.Context())
	if err != nil || len(seen) != 2 {
		t.Fatalf("%+v, %v", seen, err)
	}
	if a, b := seen[0], seen[1]; !a.Away || b.Away || !b.SeenAt.Equal(noon) || b.Host != "alpha" || b.Callsign != "@bob" {
		t.Errorf("%+v", seen)
	}
	old := fleet.Row{Handle: "bob", Host: "alpha", Stored: noon.Add(-time.Minute)}
	row := fleet.Row{Handle: "bob", Stored: noon, Body: []byte(`{"callsign":"Bob","host":"Not A Host"}`)}
	for _, rows := range [][]fleet.Row{{old, row}, {row, old}} {
		if p := (keyring{}).agents(rows, noon)[0]; !p.SeenAt.Equal(noon) || p.Callsign != "Bob" || p.Host != "" {
			t.Errorf("%+v", p)
		}
	}
	if _, err := bob.Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	if seen, err = alice.Seen(t.Context()); err != nil || len(seen) != 2 || len(seen[1].Hosts) != 1 || seen[1].Hosts[0].Host != "alpha" {
		t.Errorf("%+v, %v", seen, err)
	}
}

// TestPendingIDs checks that an id is that of its first sender until it is acknowledged,
// and that the newest delivery is the one that is.
func TestPendingIDs(t *testing.T) {
	c := &Client{pulledAt: noon}
	first := mesh.Message{ID: "m", From: "alice", Proven: true, Files: []mesh.File{{SHA256: "1"}}}
	if !c.addPending(first, fleet.Item{Body: []byte("old")}) {
		t.Fatal("it is not held")
	}
	c.pulledAt = noon.Add(time.Minute)
	if !c.addPending(first, fleet.Item{Body: []byte("new")}) || len(c.pending["m"].items) != 1 || string(c.pending["m"].items[0].Body) != "new" || c.pending["m"].shownAt != c.pulledAt {
		t.Errorf("%+v", c.pending["m"])
	}
	for _, other := range []mesh.Message{{ID: "m", From: "bob", Proven: true}, {ID: "m", From: "alice"}} {
		if c.addPending(other, fleet.Item{}) {
			t.Errorf("%+v is held as well", other)
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

// TestFirstErrorWins checks the error of a call for which there are two.
func TestFirstErrorWins(t *testing.T) {
	full := fleet.Error{Code: 503, Number: 10077, Err: errors.New("no room")}
	e, ok := errors.AsType[*mesh.Error](failure("send", &full))
	if !ok || e.Code != http.StatusServiceUnavailable || e.RetryAfter != time.Minute {
		t.Errorf("a full mailbox: %+v", e)
	}
	full.Code, full.Denied = 400, true
	if _, ok := errors.AsType[*state.CredentialError](failure("send", &full)); !ok {
		t.Error("a key that is refused is not reported as that")
	}
	if full.Denied = false; errors.As(failure("send", &full), &e) && e.Code != http.StatusServiceUnavailable {
		t.Errorf("a full mailbox: %+v", e)
	}
	synctest.Test(t, func(t *testing.T) { // the server asks for a file that is gone again, after a pause
		alice, bob := clients(t, nil)
		began := time.Now()
		err := bob.GetBlob(t.Context(), "alice", mesh.File{SHA256: strings.Repeat("0", 64), Name: "a", Size: 1}, func(r io.Reader) error {
			_, _ = io.ReadAll(r)
			return errors.New("the caller's own")
		})
		if e, ok := errors.AsType[*mesh.Error](err); !ok || e.Code != http.StatusNotFound || time.Since(began) != 500*time.Millisecond {
			t.Errorf("a file that is gone: %v after %v", err, time.Since(began))
		}
		alice.Close()
		bob.Close()
		synctest.Wait()
	})
}

// TestStaleGoIsUnproven checks that a GO that is heard before it is stored counts, and
// that one that was signed long before it was stored does not.
func TestStaleGoIsUnproven(t *testing.T) {
	alice, bob := clients(t, func() time.Time { return noon })
	if _, err := bob.Watch(t.Context(), 0); err != nil { // it hears what is set from now on
		t.Fatal(err)
	}
	for _, set := range []struct {
		halt   func() error
		halted bool
	}{{func() error { return alice.Halt(t.Context()) }, true}, {func() error { return alice.Go(t.Context()) }, false}} {
		if err := set.halt(); err != nil {
			t.Fatal(err)
		}
		if result, err := bob.Watch(t.Context(), time.Minute); err != nil || result.Halted != set.halted || result.HaltUnproven {
			t.Errorf("halted: %t: %+v, %v", set.halted, result, err)
		}
	}
	for age, unproven := range map[time.Duration]bool{6 * 24 * time.Hour: false, 8 * 24 * time.Hour: true} {
		alice.Now = func() time.Time { return noon.Add(-age) }
		if err := alice.Go(t.Context()); err != nil {
			t.Fatal(err)
		}
		if mailbox, err := bob.Take(t.Context()); err != nil || mailbox.HaltUnproven != unproven {
			t.Errorf("signed %v before: %+v, %v", age, mailbox, err)
		}
	}
}
