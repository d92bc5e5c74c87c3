package mesh

import (
	"testing"
	"time"
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
	if _, err := g.Mailbox(t.Context(), 0); err != nil { // reading the mailbox counts as well
		t.Fatal(err)
	}
	clock.Time = clock.Add(10 * time.Minute)
	if got := online(); got != "goulard " {
		t.Errorf("after 40 minutes: %s", got)
	}
}
