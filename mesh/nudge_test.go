package mesh

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"
)

// Of a hundred nudges a mailbox keeps one. A nudge that arrives after the mailbox was read is not
// acknowledged with the one that was read.
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
		t.Fatalf("held: %+v", first)
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

// What comes later does not take a nudge out of the mailbox that the recipient has
// not seen: a nudge replaces that of its own sender alone. Unproven senders, who
// choose their names, hold a few.
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
		t.Fatalf("held: %+v, %v", mailbox.Messages, err)
	}
	if m := mailbox.Messages[0]; m.Text != "the one" || !m.Proven {
		t.Errorf("first: %+v", m)
	}
	if !slices.ContainsFunc(mailbox.Messages, func(m Message) bool { return m.From == "dorlange" && !m.Proven && m.Text == "29" }) {
		t.Errorf("the latest are gone: %+v", mailbox.Messages)
	}
}

// Nudges, HALT and GO have the pace of messages, for each sender and each kind of
// call by itself. So no sender can keep another from a HALT, nor can its own
// messages.
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

// A sender that invents a name for each call finds an end, and takes nothing from
// those whom a token proves.
func TestInventedSenders(t *testing.T) {
	p, now := newRateLimit(), newTestClock().now()
	refused := 0
	for i := range maxUnprovenSenders + 1000 {
		if p.take(rateKey{callNudge, fmt.Sprint("n", i), false}, now) > 0 {
			refused++
		}
	}
	if refused != 1000 || len(p.senders) != maxUnprovenSenders {
		t.Errorf("%d refused, %d kept", refused, len(p.senders))
	}
	if p.take(rateKey{callHalt, "goulard", true}, now) > 0 {
		t.Error("a proven HALT was refused")
	}
	if p.take(rateKey{callNudge, "other", false}, now.Add(2*time.Minute)) > 0 || len(p.senders) != 1 {
		t.Errorf("they are remembered: %d", len(p.senders))
	}
}
