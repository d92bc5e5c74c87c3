package memory_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"testing"
	"time"

	"agentstateloop/fleet"
	"agentstateloop/internal/testkit/fleettest"
	"agentstateloop/internal/testkit/fleettest/memory"
)

// start starts an engine in memory with a clock, and returns connections of the
// administrator and of each handle.
func start(t *testing.T, o memory.Options, handles ...string) (*memory.Engine, map[string]*fleet.Conn) {
	t.Helper()
	keys := map[string]fleettest.Key{"": fleettest.NewKey(t)}
	o.Admin, o.Users = keys[""].Public, map[string]string{}
	for _, h := range handles {
		keys[h] = fleettest.NewKey(t)
		o.Users[h] = keys[h].Public
	}
	e := memory.New(o)
	conns := map[string]*fleet.Conn{}
	for handle, key := range keys {
		c := &fleet.Conn{
			URL: "nats://127.0.0.1:4222", Handle: handle, Timeout: patience,
			Seed: func(context.Context) (string, error) { return key.Seed, nil },
			Dial: func(context.Context, string, string) (net.Conn, error) {
				near, far := net.Pipe()
				go e.Serve(far)
				return near, nil
			},
		}
		t.Cleanup(c.Close)
		conns[handle] = c
	}
	return e, conns
}

// TestCreate checks that fleet.Create makes and mends the streams of an engine in memory,
// and that New makes the same.
func TestCreate(t *testing.T) {
	for _, replicas := range []int{1, 3} {
		for _, bare := range []bool{true, false} {
			_, conns := start(t, memory.Options{Replicas: replicas, Bare: bare}, "alice", "bob")
			ask := func(ctx context.Context, subject string, body []byte) ([]byte, error) {
				a, err := conns[""].Request(ctx, subject, body, nil)
				return a.Data, err
			}
			did := func() string {
				changes, err := fleet.Create(t.Context(), ask, fleet.Wanted{Handles: []string{"alice", "bob"}, Servers: replicas})
				if err != nil {
					t.Fatal(err)
				}
				counts := map[string]int{}
				for _, c := range changes {
					counts[c.Did]++
				}
				return fmt.Sprint(counts)
			}
			want := []string{"map[same:7]", "map[same:7]"}
			if bare {
				want[0] = "map[made:7]"
			}
			for _, w := range want {
				if got := did(); got != w {
					t.Errorf("%d servers, bare %v: %s, want %s", replicas, bare, got, w)
				}
			}
			wrong := fleet.Mailbox("bob")
			wrong.AckWait = time.Second
			if _, err := conns[""].Request(t.Context(), "$JS.API.CONSUMER.DURABLE.CREATE.ASL_BOX.bob", encode(t, map[string]any{"config": wrong}), nil); err != nil {
				t.Fatal(err)
			}
			stream := fleet.Assets(replicas)[0].Stream
			stream.MaxSize = 1
			if _, err := conns[""].Request(t.Context(), "$JS.API.STREAM.UPDATE.ASL_BOX", encode(t, stream), nil); err != nil {
				t.Fatal(err)
			}
			for _, w := range []string{"map[mended:2 same:5]", "map[same:7]"} {
				if got := did(); got != w {
					t.Errorf("%d servers, bare %v, after a change: %s, want %s", replicas, bare, got, w)
				}
			}
		}
	}
}

// TestClock checks that an engine in memory goes by the clock that it was given alone.
func TestClock(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	e, conns := start(t, memory.Options{Now: func() time.Time { return now }}, "alice", "bob")
	alice, bob := conns["alice"], conns["bob"]
	post := func() fleet.Stored {
		t.Helper()
		s, err := alice.Post(t.Context(), "bob", "one", time.Unix(1, 0), []byte("hello"), true)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	take := func() []fleet.Item {
		t.Helper()
		taken, err := bob.Take(t.Context(), "", now, 10, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		return taken.Items
	}
	post()
	if items := take(); len(items) != 1 || !items[0].Stored.Equal(now) {
		t.Fatalf("bob got %+v", items)
	}
	if err := alice.Register(t.Context(), []byte("{}"), now); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		wait             time.Duration
		duplicate        bool
		comes, rows, box int
	}{
		{time.Minute - 1, true, 0, 1, 1},
		{1, true, 1, 1, 1},
		{time.Minute, true, 1, 1, 1},
		{58*time.Minute - 1, true, 1, 1, 1},
		{1, false, 1, 1, 2},
		{7*24*time.Hour - time.Hour - 1, false, 3, 1, 3},
		{1, true, 0, 0, 3},
	} {
		now = now.Add(step.wait)
		if s := post(); s.Duplicate != step.duplicate {
			t.Errorf("after %v: a repeat was stored as %+v", step.wait, s)
		}
		if n := len(take()); n != step.comes {
			t.Errorf("after %v: %d messages came, want %d", step.wait, n, step.comes)
		}
		if n := len(e.Messages(fleet.WhoStream)); n != step.rows {
			t.Errorf("after %v: the registry has %d rows", step.wait, n)
		}
		if n := len(e.Messages(fleet.MailboxStream)); n != step.box {
			t.Errorf("after %v: the mailboxes have %d messages", step.wait, n)
		}
	}
}

// TestRestart checks what an engine in memory forgets when it is started again: one server
// the ids of messages that it does not store any more, and a cluster nothing.
func TestRestart(t *testing.T) {
	for replicas, forgets := range map[int]bool{1: true, 3: false} {
		e, conns := start(t, memory.Options{Replicas: replicas}, "alice", "bob")
		post := func(id string) fleet.Stored {
			t.Helper()
			s, err := conns["alice"].Post(t.Context(), "bob", id, time.Unix(1, 0), []byte("hello"), true)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		post("acknowledged")
		taken, err := conns["bob"].Take(t.Context(), "", time.Now(), 1, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if err := conns["bob"].Ack(t.Context(), taken.Items...); err != nil {
			t.Fatal(err)
		}
		post("waiting")
		if taken, err = conns["bob"].Take(t.Context(), "", time.Now(), 1, 1<<20); err != nil || len(taken.Items) != 1 || taken.Items[0].ID != "waiting" {
			t.Fatalf("bob got %+v, %v", taken, err)
		}
		e.Restart()
		if h, err := conns["bob"].Count(t.Context()); err != nil || h.Waiting != 1 {
			t.Errorf("after the restart of %d: %+v, %v", replicas, h, err)
		}
		if taken, err = conns["bob"].Take(t.Context(), "", time.Now(), 1, 1<<20); err != nil || len(taken.Items) != 0 {
			t.Errorf("what waits to be acknowledged came again at once: %+v, %v", taken, err)
		}
		if s := post("waiting"); !s.Duplicate {
			t.Errorf("%d servers forgot the id of what they store", replicas)
		}
		if s := post("acknowledged"); s.Duplicate == forgets {
			t.Errorf("%d servers: a repeat of what was acknowledged was stored as %+v", replicas, s)
		}
	}
}

func encode(t *testing.T, value any) []byte {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
