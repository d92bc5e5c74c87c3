package listen_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"agentstateloop/cycle/listen"
)

// follow begins to follow the events, and returns their lines.
func (h *fixture) follow(path, last string) (lines chan string, hangUp func()) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", h.web+path, nil)
	check(h.t, err)
	req.Header.Set("Authorization", bearer)
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := http.DefaultClient.Do(req)
	check(h.t, err)
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		body, _ := io.ReadAll(resp.Body)
		h.t.Fatalf("answered %d %s: %s", resp.StatusCode, resp.Header.Get("Content-Type"), body)
	}
	lines = make(chan string, 1000)
	go func() {
		defer close(lines)
		defer resp.Body.Close()
		for s := bufio.NewScanner(resp.Body); s.Scan(); {
			lines <- s.Text()
		}
	}()
	return lines, cancel
}

// until returns the lines up to one with a beginning.
func until(t *testing.T, lines chan string, beginning string) (all []string) {
	t.Helper()
	for {
		select {
		case l, ok := <-lines:
			all = append(all, l)
			if strings.HasPrefix(l, beginning) {
				return all
			}
			if !ok {
				t.Fatalf("the stream ended before %q: %q", beginning, all)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("no %q in %q", beginning, all)
		}
	}
}

// The listener streams what happens, to those who have the token, and goes on for
// one that comes back. It ends the streams when it ends.
func TestEventsAreStreamed(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	stop := h.listen()
	lines, hangUp := h.follow("/events", "")
	until(t, lines, ": events of @"+handle)
	check(t, h.agent.Ring("ann", "look"))
	_, err := h.agent.Halt(t.Context(), "enough")
	check(t, err)
	all := until(t, lines, "event: halt")
	data := until(t, lines, "data: ")
	if last := data[len(data)-1]; !strings.Contains(last, `"event":"halt"`) || !strings.Contains(last, `"reason":"enough"`) {
		t.Errorf("%s", last)
	}
	hangUp()
	id := strings.TrimPrefix(all[len(all)-2], "id: ")
	_, err = h.agent.Resume(t.Context(), "")
	check(t, err)
	lines, _ = h.follow("/events/"+handle, id)
	for _, l := range until(t, lines, "event: go") {
		if l == "event: halt" {
			t.Error("an event came twice")
		}
	}
	stop()
	for range lines {
	}
}

// A follower hears that the connection lives while nothing happens.
func TestEventsHaveAHeartbeat(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.listen(func(l *listen.Listener) { l.Heartbeat = time.Millisecond })
	lines, _ := h.follow("/events", "")
	until(t, lines, ": still here")
	until(t, lines, ": still here")
}

// Events are for those who have the token, and for a few at a time.
func TestEventsAreRefused(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.listen()
	for _, c := range []struct {
		path   string
		header []string
		want   int
	}{
		{"/events", nil, 401},
		{"/events", []string{"Authorization", "Bearer nope"}, 401},
		{"/events", []string{"Authorization", bearer, "Origin", "https://evil.example"}, 403},
		{"/events/nobody", []string{"Authorization", bearer}, 404},
		{"/events", []string{"Authorization", bearer, "Last-Event-ID", "yesterday"}, 400},
		{"/events", []string{"Authorization", bearer, "Last-Event-ID", "1.2/../3.4"}, 400},
	} {
		if got := h.call("GET", c.path, "", c.header...); got != c.want {
			t.Errorf("%s %q: answered %d, want %d", c.path, c.header, got, c.want)
		}
	}
	for range 16 {
		h.follow("/events", "")
	}
	if got := h.call("GET", "/events", "", "Authorization", bearer); got != 503 {
		t.Errorf("the 17th: answered %d", got)
	}
}

func TestEventsWithoutToken(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.listen(func(l *listen.Listener) { l.Token = nil })
	if got := h.call("GET", "/events", ""); got != http.StatusForbidden {
		t.Errorf("answered %d", got)
	}
}
