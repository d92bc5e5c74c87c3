package natsmesh_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/testkit/fleettest"
	"agentstateloop/internal/testkit/limittest"
	"agentstateloop/mesh"
	"agentstateloop/mesh/natsmesh"
)

// TestForgedFieldsOfMessage checks that a message counts as unproven if its fields contradict the
// mailbox that it is in.
func TestForgedFieldsOfMessage(t *testing.T) {
	t.Parallel()
	e := fleettest.Start(t, "alice", "bob")
	alice, bob := e.Conn("alice"), e.Client("bob")
	day := 24 * time.Hour
	for name, tt := range map[string]struct {
		id, body string
		age      time.Duration // of the signature
		want     string        // proven, id, from, to, correlation
	}{
		"as sent":             {"m1", `{"id":"m1","from":"alice","to":"bob"}`, 0, "true m1 alice bob "},
		"another sender":      {"m2", `{"id":"m2","from":"mallory","to":"bob"}`, 0, "false unproven alice bob m2"},
		"another recipient":   {"m3", `{"id":"m3","from":"alice","to":"carol"}`, 0, "false unproven alice bob m3"},
		"another id":          {"m4", `{"id":"m5","from":"alice","to":"bob"}`, 0, "false unproven alice bob m5"},
		"signed long before":  {"m6", `{"id":"m6","from":"alice","to":"bob"}`, 8 * day, "false unproven alice bob m6"},
		"signed before":       {"m7", `{"id":"m7","from":"alice","to":"bob"}`, 6 * day, "true m7 alice bob "},
		"signed long after":   {"m8", `{"id":"m8","from":"alice","to":"bob"}`, -6 * day, "false unproven alice bob m8"},
		"an unproven id":      {"unproven.1", `{"id":"unproven.1","from":"alice","to":"bob"}`, 0, "false unproven alice bob unproven.1"},
		"an undecoded id":     {"undecoded.1", `{"id":"undecoded.1","from":"alice","to":"bob"}`, 0, "false unproven alice bob undecoded.1"},
		"an answer":           {"m9", `{"id":"m9","from":"alice","to":"bob","correlation_id":"c"}`, 0, "true m9 alice bob c"},
		"an unproven answer":  {"m10", `{"id":"m10","from":"mallory","to":"bob","correlation_id":"c"}`, 0, "false unproven alice bob c"},
		"a file that is gone": {"m11", `{"id":"m11","from":"alice","to":"bob","files":[{"name":"a","missing":"a lie"}]}`, 0, "true m11 alice bob "},
	} {
		if _, err := alice.Post(t.Context(), "bob", tt.id, time.Now().Add(-tt.age), []byte(tt.body), false); err != nil {
			t.Fatal(err)
		}
		m := takeMany(t, e, bob, 1).Messages[0]
		id, _, _ := strings.Cut(m.ID, ".")
		if got := fmt.Sprint(m.Proven, " ", id, " ", m.From, " ", m.To, " ", m.Correlation); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
		if age := time.Since(m.SentAt); age < -time.Minute || age > time.Minute {
			t.Errorf("%s: it was sent %v ago", name, age)
		}
		if len(m.Files) > 0 && m.Files[0].Missing != "" {
			t.Errorf("%s: the sender's claim that it is missing counts", name)
		}
		if err := bob.Ack(t.Context(), m.ID); err != nil {
			t.Fatal(err)
		}
	}
	send(t, e.Client("bob"), mesh.Message{ID: "own", To: "bob", Text: "x"})
	if m := takeMany(t, e, bob, 1).Messages[0]; !m.Proven {
		t.Errorf("a message to oneself: %+v", m)
	}
}

// TestProvenSenders checks that the sender of a message and of a ring is proven by the key that the
// recipient has for the sender.
func TestProvenSenders(t *testing.T) {
	t.Parallel()
	e := fleettest.Start(t, "alice", "bob")
	alice, bob := e.Client("alice"), e.Client("bob")
	if _, err := alice.Send(t.Context(), mesh.Message{From: "bob", To: "bob", Text: "x"}); err == nil {
		t.Error("alice sent in the name of bob")
	}
	if err := alice.Nudge(t.Context(), "bob", "bob", "x"); err == nil {
		t.Error("alice nudged in the name of bob")
	}
	keys := e.Keys()
	for _, key := range []string{keys["alice"], keys["bob"], ""} {
		bob.Keys = map[string]string{"alice": key}
		known := key == keys["alice"]
		if _, err := bob.Watch(t.Context(), 0); err != nil { // begins to listen
			t.Fatal(err)
		}
		if err := e.Conn("alice").Ring(t.Context(), "bob"); err != nil {
			t.Fatal(err)
		}
		heard, err := bob.Watch(t.Context(), time.Minute)
		wrong := func(m mesh.Message) bool { return m.From != "alice" || m.Proven != known }
		if err != nil || len(heard.Messages) == 0 || slices.ContainsFunc(heard.Messages, wrong) { // the send before it may ring late
			t.Errorf("rung by alice, and her key is %q: %+v, %v", key, heard, err)
		}
		send(t, alice, mesh.Message{To: "bob", Text: "x"})
		box := takeMany(t, e, bob, 1)
		if box.Messages[0].Proven != known {
			t.Errorf("of alice, and her key is %q: %+v", key, box)
		}
		ack(t, bob, box)
	}
}

// TestGoIsProvenByItsTime checks that a GO that is heard before it is stored counts, and that one
// that was signed long before does not.
func TestGoIsProvenByItsTime(t *testing.T) {
	t.Parallel()
	e := fleettest.Start(t, "alice", "bob")
	alice, bob := e.Client("alice"), e.Client("bob")
	if _, err := bob.Watch(t.Context(), 0); err != nil { // begins to listen
		t.Fatal(err)
	}
	for _, set := range []struct {
		halt   func(context.Context) error
		halted bool
	}{{alice.Halt, true}, {alice.Go, false}} {
		if err := set.halt(t.Context()); err != nil {
			t.Fatal(err)
		}
		if heard, err := bob.Watch(t.Context(), time.Minute); err != nil || heard.Halted != set.halted || heard.HaltUnproven {
			t.Errorf("halted: %t: %+v, %v", set.halted, heard, err)
		}
	}
	for age, unproven := range map[time.Duration]bool{6 * 24 * time.Hour: false, 8 * 24 * time.Hour: true} {
		alice.Now = func() time.Time { return time.Now().Add(-age) }
		if err := alice.Go(t.Context()); err != nil {
			t.Fatal(err)
		}
		if box := take(t, bob); box.HaltUnproven != unproven {
			t.Errorf("signed %v before: %+v", age, box)
		}
	}
}

// TestRowsAreSigned checks how long after its signature a row of the registry may be stored.
func TestRowsAreSigned(t *testing.T) {
	t.Parallel()
	e := fleettest.Start(t, "alice", "bob")
	if err := e.Client("bob").Register(t.Context(), mesh.Presence{}); err != nil {
		t.Fatal(err)
	}
	rows, err := e.Conn("alice").Rows(t.Context(), 10)
	if err != nil || len(rows) != 1 {
		t.Fatalf("%+v, %v", rows, err)
	}
	limittest.Run(t, []limittest.Limit{
		limittest.Duration("onlineFor", 35*time.Minute, 1, func(_ *testing.T, d time.Duration) bool {
			row := rows[0]
			row.Stored = row.At.Add(d)
			return natsmesh.Believes(e.Keys(), row)
		}),
	})
	if natsmesh.Believes(map[string]string{"bob": e.Users["alice"].Public}, rows[0]) {
		t.Error("a row with the signature of another key counts")
	}
}

// TestMissingFile checks that the error of the mesh counts before that of the caller, after three
// requests with pauses: a server may lag behind the others.
func TestMissingFile(t *testing.T) {
	t.Parallel()
	bob := fleettest.Start(t, "alice", "bob").Client("bob")
	began := time.Now()
	err := bob.GetBlob(t.Context(), "alice", mesh.File{SHA256: strings.Repeat("0", 64), Name: "a", Size: 1}, func(r io.Reader) error {
		_, _ = io.ReadAll(r)
		return errors.New("the caller's own")
	})
	if e, ok := errors.AsType[*mesh.Error](err); !ok || e.Code != http.StatusNotFound || time.Since(began) < 500*time.Millisecond {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

// silentAboutHalt is a connection that changes the reply subject of the request for HALT, so that the
// client does not receive the answer.
type silentAboutHalt struct{ net.Conn }

func (c silentAboutHalt) Write(p []byte) (int, error) {
	const request = "$JS.API.DIRECT.GET.KV_asl-mesh.$KV.asl-mesh.halt _INBOX_bob"
	return c.Conn.Write(bytes.ReplaceAll(p, []byte(request+"."), []byte(request+"-")))
}

// TestUnansweredHaltFailsPoll checks that a poll fails if its request for HALT is not answered, so
// that the agent stays halted.
func TestUnansweredHaltFailsPoll(t *testing.T) {
	t.Parallel()
	e := fleettest.Start(t, "alice", "bob")
	bob := e.Client("bob")
	bob.Timeout = time.Second
	bob.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		return silentAboutHalt{c}, err
	}
	if err := e.Client("alice").Halt(t.Context()); err != nil {
		t.Fatal(err)
	}
	if box, err := bob.Take(t.Context()); err == nil {
		t.Errorf("a poll sees %+v", box)
	}
}
