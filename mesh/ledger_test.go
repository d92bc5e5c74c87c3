package mesh

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// TestSameIDFromTwoSenders checks that an acknowledgement removes one of two messages with one id.
func TestSameIDFromTwoSenders(t *testing.T) {
	_, url := startServer(t, Options{Tokens: twoTokens()})
	g, d := client(url, "goulard", "tg"), client(url, "dorlange", "td")
	for _, c := range []*Client{d, g} {
		if _, err := c.Send(t.Context(), Message{ID: "same", To: "goulard", Text: c.Handle}); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"dorlange", "goulard"} {
		mailbox, err := g.Mailbox(t.Context(), 0)
		if err != nil || len(mailbox.Messages) != 1 || mailbox.Messages[0].Text != want {
			t.Fatalf("want %s's: %+v, %v", want, mailbox, err)
		}
		if err := g.Ack(t.Context(), "same"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLedgerFull checks that a full mesh refuses messages, and that unproven senders can fill only
// half of it.
func TestLedgerFull(t *testing.T) {
	clock := newTestClock()
	s := NewServer(Options{Open: true, Now: clock.now})
	fill := func(proven bool) (n int) {
		for ; ; n++ {
			clock.Time = clock.Add(time.Minute)
			_, err := s.deliver(Message{ID: fmt.Sprint(n), From: "a", To: "b", Proven: proven, Kind: KindMessage, SentAt: clock.now()})
			if r, ok := errors.AsType[*refusal](err); ok && r.code == http.StatusServiceUnavailable && r.after > 0 {
				return n
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := fill(false); n != maxPerMailbox/2 {
		t.Errorf("unproven: %d", n)
	}
	if n := fill(true); n != maxPerMailbox/2 {
		t.Errorf("proven: %d", n)
	}
	if err := s.deliverNudge(Message{ID: "n", From: "a", To: "b", Kind: KindNudge}); err != nil {
		t.Errorf("nudge at a full mailbox: %v", err)
	}
}
