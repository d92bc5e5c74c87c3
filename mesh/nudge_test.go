package mesh

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"
)

// TestNudgesCoalesce checks that a mailbox keeps one of a hundred nudges, and that a nudge that
// arrives after the mailbox was read is not acknowledged with the one that was read.
func TestNudgesCoalesce(t *testing.T) {
	clock := newTestClock()
	_, url := startServer(t, Options{Tokens: twoTokens(), Now: clock.now})
	g, d := client(url, "goulard", "tg"), client(url, "dorlange", "td")
	waiting := func() []Message {
		mailbox, err := g.Mailbox(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		return mailbox.Messages
	}
	for i := range 100 {
		clock.Time = clock.Add(time.Minute)
		if err := d.Nudge(t.Context(), "goulard", "", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	first := waiting()
	if len(first) != 1 || first[0].Text != "99" {
		t.Fatalf("waiting: %+v", first)
	}
	if err := d.Nudge(t.Context(), "goulard", "", "late"); err != nil {
		t.Fatal(err)
	}
	if err := g.Ack(t.Context(), first[0].ID); err != nil {
		t.Fatal(err)
	}
	if late := waiting(); len(late) != 1 || late[0].Text != "late" {
		t.Errorf("after the acknowledgement: %+v", late)
	}
}

// TestNudgesOfOthersStay checks that a nudge replaces only that of its own sender. Unproven senders,
// who choose their names, have a few.
func TestNudgesOfOthersStay(t *testing.T) {
	clock := newTestClock()
	_, url := startServer(t, Options{Tokens: twoTokens(), Open: true, Now: clock.now})
	g, d := client(url, "goulard", "tg"), client(url, "dorlange", "td")
	if err := d.Nudge(t.Context(), "goulard", "", "the one"); err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		for _, from := range []string{"dorlange", fmt.Sprint("mallory", i)} {
			clock.Time = clock.Add(time.Minute)
			unproven := &Client{URL: url, Handle: from, Timeout: time.Minute}
			if err := unproven.Nudge(t.Context(), "goulard", "", fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	mailbox, err := g.Mailbox(t.Context(), 0)
	if err != nil || len(mailbox.Messages) != 1+maxUnprovenNudges {
		t.Fatalf("waiting: %+v, %v", mailbox.Messages, err)
	}
	if m := mailbox.Messages[0]; m.Text != "the one" || !m.Proven {
		t.Errorf("first: %+v", m)
	}
	if !slices.ContainsFunc(mailbox.Messages, func(m Message) bool { return m.From == "dorlange" && !m.Proven && m.Text == "29" }) {
		t.Errorf("the latest are gone: %+v", mailbox.Messages)
	}
}

// TestNudgeRateLimit checks that nudges, HALT and GO have the rate limit of messages, each sender and
// each kind of call its own. So a sender cannot keep another from a HALT, nor can its own messages.
func TestNudgeRateLimit(t *testing.T) {
	clock := newTestClock()
	_, url := startServer(t, Options{Tokens: twoTokens(), Open: true, Now: clock.now})
	for _, call := range []struct{ name, path, body string }{
		{"nudge", "/nudge/goulard", `{}`}, {"kill", "/kill", ""}, {"resume", "/resume", ""}, {"message", "/message", `{"to":"goulard","message":"x"}`},
	} {
		for i := range 8 {
			resp, body := rawCall(t, "POST", url+call.path, "td", call.body)
			if i < 5 && resp.StatusCode >= 300 || i >= 5 && resp.StatusCode != http.StatusTooManyRequests {
				t.Errorf("%s %d: %d %s", call.name, i, resp.StatusCode, body)
			}
			if i >= 5 && resp.Header.Get("Retry-After") != "60" {
				t.Errorf("%s %d: Retry-After %q", call.name, i, resp.Header.Get("Retry-After"))
			}
		}
		if resp, body := rawCall(t, "POST", url+call.path, "tg", call.body); resp.StatusCode >= 300 {
			t.Errorf("%s by another: %d %s", call.name, resp.StatusCode, body)
		}
	}
	err := client(url, "dorlange", "td").Halt(t.Context())
	if e, ok := errors.AsType[*Error](err); !ok || !e.Temporary() || e.RetryAfter != time.Minute {
		t.Errorf("the client: %v", err)
	}
	clock.Time = clock.Add(time.Minute)
	if err := client(url, "dorlange", "td").Halt(t.Context()); err != nil {
		t.Errorf("a minute later: %v", err)
	}
}

// TestInventedSenders checks that the number of unproven senders is limited, and that proven senders
// do not count.
func TestInventedSenders(t *testing.T) {
	p, now := newRateLimit(), newTestClock().now()
	refused := 0
	for i := range maxUnprovenSenders + 1000 {
		if p.take(rateKey{callNudge, fmt.Sprint("n", i), false}, now) > 0 {
			refused++
		}
	}
	if refused != 1000 || len(p.senders) != maxUnprovenSenders {
		t.Errorf("%d refused, %d senders", refused, len(p.senders))
	}
	if p.take(rateKey{callHalt, "goulard", true}, now) > 0 {
		t.Error("a proven HALT was refused")
	}
	if p.take(rateKey{callNudge, "other", false}, now.Add(2*time.Minute)) > 0 || len(p.senders) != 1 {
		t.Errorf("they are remembered: %d", len(p.senders))
	}
}
