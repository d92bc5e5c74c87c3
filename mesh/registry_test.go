package mesh

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"agentstateloop/state"
)

func TestOnlineAgents(t *testing.T) {
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

// TestFullRegistry checks that the rows of a full registry can still change.
func TestFullRegistry(t *testing.T) {
	s := NewServer(Options{Tokens: twoTokens(), Open: true})
	for i := range maxAgents {
		s.ledger.agents[fmt.Sprint(i)] = Presence{}
	}
	if err := s.publish(Presence{Handle: "1"}, nil, false); err != nil {
		t.Error(err)
	}
}

// TestOnlineBound checks that a list of far more agents than a registry has rows is refused before it
// is decoded completely.
func TestOnlineBound(t *testing.T) {
	c := serve(t, answerWith(200, "application/json", `{"agents":[`+strings.Repeat("{},", 1<<20)+`{}]}`))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	list, err := c.Online(t.Context())
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; err == nil || grown > 64<<20 {
		t.Errorf("got %d agents, %v, and took %d MiB", len(list), err, grown>>20)
	}
}

// TestUnchangedPresenceUpdatesSeenAt checks that an unchanged presence that is published again renews
// its time.
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
