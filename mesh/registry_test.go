package mesh

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"agentstateloop/state"
)

func TestOnline(t *testing.T) {
	clock := newTestClock()
	_, url := startServer(t, Options{Tokens: twoTokens(), Now: clock.now})
	g, d := client(url, "goulard", "tg"), client(url, "dorlange", "td")
	online := func() (handles string) {
		list, err := d.Online(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list {
			handles += p.Handle + " "
		}
		return handles
	}
	for _, c := range []*Client{g, d} {
		if err := c.Register(t.Context(), Presence{}); err != nil {
			t.Fatal(err)
		}
	}
	clock.Time = clock.Add(30 * time.Minute)
	if got := online(); got != "dorlange goulard " {
		t.Errorf("after 30 minutes: %s", got)
	}
	if _, err := g.Mailbox(t.Context(), 0); err != nil { // reading the mailbox also counts as online
		t.Fatal(err)
	}
	clock.Time = clock.Add(10 * time.Minute)
	if got := online(); got != "goulard " {
		t.Errorf("after 40 minutes: %s", got)
	}
}

// Unproven callers can register any handle without a token, so they can use only half of the
// registry's rows.
func TestFullRegistry(t *testing.T) {
	s := NewServer(Options{Tokens: twoTokens(), Open: true})
	fill := func(proven bool) (n int) {
		for ; ; n++ {
			if err := s.publish(Presence{Handle: fmt.Sprint(proven, "-", n)}, nil, proven); err != nil {
				return n
			}
		}
	}
	if n := fill(false); n != maxAgents/2 {
		t.Errorf("unproven: %d", n)
	}
	if err := s.publish(Presence{Handle: "goulard"}, nil, true); err != nil {
		t.Errorf("proven: %v", err)
	}
	if err := s.publish(Presence{Handle: "false-1"}, nil, false); err != nil {
		t.Errorf("a row that is there: %v", err)
	}
}

// A list of more agents than a registry has rows is refused before it is decoded completely.
func TestOnlineBound(t *testing.T) {
	for _, tt := range []struct {
		n    int
		good bool
	}{{0, true}, {maxAgents, true}, {maxAgents + 1, false}, {1 << 20, false}} {
		c := serve(t, answer(200, "application/json", `{"agents":[`+strings.TrimSuffix(strings.Repeat("{},", tt.n), ",")+`]}`))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		list, err := c.Online(t.Context())
		runtime.ReadMemStats(&after)
		if (err == nil) != tt.good || tt.good && len(list) != tt.n {
			t.Errorf("%d agents: got %d, %v", tt.n, len(list), err)
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<20 {
			t.Errorf("%d agents took %d MiB", tt.n, grown>>20)
		}
	}
}

// TestUnchangedPresenceUpdatesSeenAt checks that a presence that is published again shows that
// its agent is there, although it has not changed.
func TestUnchangedPresenceUpdatesSeenAt(t *testing.T) {
	clock := newTestClock()
	s, url := startServer(t, Options{Tokens: twoTokens(), Now: clock.now})
	g := client(url, "goulard", "tg")
	for range 2 {
		clock.Time = clock.Add(time.Hour)
		if err := g.Register(t.Context(), Presence{Phase: state.IDLE}); err != nil {
			t.Fatal(err)
		}
		list, err := g.Online(t.Context())
		if err != nil || len(list) != 1 || !list[0].SeenAt.Equal(clock.Time) || list[0].Callsign != "@goulard" {
			t.Errorf("%+v, %v", list, err)
		}
	}
	if err := g.Register(t.Context(), Presence{Callsign: "Goulard"}); err != nil || s.ledger.agents["goulard"].Callsign != "Goulard" {
		t.Errorf("a callsign of one's own: %+v, %v", s.ledger.agents, err)
	}
}
