package mesh

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestMailboxPages checks that a mailbox returns at most 200 messages and 4 MiB, oldest first, and
// the rest after these are acknowledged.
func TestMailboxPages(t *testing.T) {
	for name, tt := range map[string]struct {
		text       string
		all, looks int
	}{"many": {"x", 450, 3}, "large": {strings.Repeat("\x01", 10_000), 150, 3}} {
		t.Run(name, func(t *testing.T) {
			clock := newTestClock()
			s, url := startServer(t, Options{Tokens: twoTokens(), Now: clock.now})
			g := client(url, "goulard", "tg")
			for i := range tt.all {
				clock.Time = clock.Add(time.Minute)
				if _, err := s.deliver(Message{ID: fmt.Sprint(i), From: "dorlange", To: "goulard", Text: tt.text, Kind: KindMessage, Proven: true, SentAt: clock.now()}); err != nil {
					t.Fatal(err)
				}
			}
			next, looks := 0, 0
			for next < tt.all {
				mailbox, err := g.Mailbox(t.Context(), 0)
				if err != nil || len(mailbox.Messages) == 0 || len(mailbox.Messages) > MaxMessages {
					t.Fatalf("%d messages, %v", len(mailbox.Messages), err)
				}
				looks++
				for _, m := range mailbox.Messages {
					if m.ID != fmt.Sprint(next) {
						t.Fatalf("got %s, want %d", m.ID, next)
					}
					if _, _, err := s.deleteMessage(nil, ackRequest("goulard", m.ID), "goulard"); err != nil {
						t.Fatal(err)
					}
					next++
				}
			}
			if looks != tt.looks {
				t.Errorf("%d looks, want %d", looks, tt.looks)
			}
			if s.ledger.count != 0 || s.ledger.bytes != 0 {
				t.Errorf("left: %d messages, %d bytes", s.ledger.count, s.ledger.bytes)
			}
		})
	}
}

func ackRequest(handle, id string) *http.Request {
	r := httptest.NewRequest("DELETE", "/", nil)
	r.SetPathValue("handle", handle)
	r.SetPathValue("id", id)
	return r
}

// TestLongPollEnds checks that a long poll ends when a message arrives, at HALT, and when the mesh is
// closed.
func TestLongPollEnds(t *testing.T) {
	s, url := startServer(t, Options{Tokens: twoTokens()})
	g, d := client(url, "goulard", "tg"), client(url, "dorlange", "td")
	for name, event := range map[string]func() error{
		"message": func() error { _, err := d.Send(t.Context(), Message{To: "goulard", Text: "x"}); return err },
		"nudge":   func() error { return d.Nudge(t.Context(), "goulard", "", "") },
		"halt":    func() error { return d.Halt(t.Context()) },
	} {
		mailbox := poll(t, s, g, event)
		if name == "halt" && !mailbox.Halted || name != "halt" && len(mailbox.Messages) != 1 {
			t.Errorf("%s: %+v", name, mailbox)
		}
		for _, m := range mailbox.Messages {
			if err := g.Ack(t.Context(), m.ID); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.Go(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if mailbox := poll(t, s, g, func() error { s.release(); return nil }); len(mailbox.Messages) != 0 {
		t.Errorf("stop: %+v", mailbox)
	}
	if len(s.waiters) != 0 {
		t.Errorf("%d mailboxes still have waiters", len(s.waiters))
	}
}

// poll starts a long poll, calls event when the server waits, and returns the response.
func poll(t *testing.T, s *Server, c *Client, event func() error) Mailbox {
	t.Helper()
	type result struct {
		mailbox Mailbox
		err     error
	}
	got := make(chan result)
	go func() {
		mailbox, err := c.Mailbox(t.Context(), time.Minute)
		got <- result{mailbox, err}
	}()
	for waits := false; !waits; {
		select {
		case r := <-got:
			t.Fatalf("did not wait: %+v, %v", r.mailbox, r.err)
		default:
		}
		s.mu.Lock()
		waits = s.waiters[c.Handle] != nil
		s.mu.Unlock()
	}
	if err := event(); err != nil {
		t.Fatal(err)
	}
	r := <-got
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.mailbox
}

// pipes is a listener for connections inside a synctest bubble.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if conn, ok := <-p; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return pipeAddr{} }

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	p <- loopbackConn{theirs}
	return ours, nil
}

// loopbackConn is one end of a pipe that looks like a loopback connection.
type loopbackConn struct{ net.Conn }

func (loopbackConn) RemoteAddr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "tcp" }
func (pipeAddr) String() string  { return "127.0.0.1:1" }

// TestLongPollOutlivesTimeouts checks that a long poll may outlast the connection's timeouts, which
// are for calls that answer at once, and reports messages that arrive in its last second. Shutdown
// does not wait for it.
func TestLongPollOutlivesTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(Options{Open: true})
		conns := make(pipes)
		h := s.HTTPServer()
		go h.Serve(conns)
		c := &Client{URL: "http://127.0.0.1", Handle: "goulard", Timeout: 5 * time.Second, http: plainClient(&net.Dialer{})}
		c.http.Transport.(*exchanger).dial = conns.dial
		time.AfterFunc(59*time.Second, func() {
			if err := s.deliverNudge(Message{ID: "1", From: "a", To: "goulard", Kind: KindNudge}); err != nil {
				t.Error(err)
			}
		})
		mailbox, err := c.Mailbox(t.Context(), time.Minute)
		if err != nil || len(mailbox.Messages) != 1 {
			t.Errorf("got %+v, %v", mailbox, err)
		}
		if err := c.Ack(t.Context(), "1"); err != nil {
			t.Error(err)
		}
		// The server does not wait for a client that has disconnected.
		ctx, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		if _, err := c.Mailbox(ctx, time.Minute); !errors.Is(err, context.Canceled) {
			t.Errorf("gone: %v", err)
		}
		synctest.Wait()
		if len(s.waiters) != 0 {
			t.Error("a disconnected reader still has a waiter")
		}

		ended := make(chan error)
		go func() { _, err := c.Mailbox(t.Context(), time.Minute); ended <- err }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		go func() { ended <- h.Shutdown(ctx) }()
		for range 2 {
			if err := <-ended; err != nil {
				t.Errorf("shutdown: %v", err)
			}
		}
	})
}

// TestLongPollsOfAHandle checks that a fifth long poll of a handle is answered at once, and that
// other handles can still wait.
func TestLongPollsOfAHandle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(Options{Tokens: twoTokens()})
		ask := func(handle, token string) time.Duration {
			r := httptest.NewRequest("GET", "http://127.0.0.1/mailbox/"+handle+"?wait=50s", nil)
			r.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			began := time.Now()
			if s.ServeHTTP(w, r); w.Code != http.StatusOK {
				t.Errorf("%s: %d %s", handle, w.Code, w.Body)
			}
			return time.Since(began)
		}
		durations := make(chan time.Duration, 4)
		for range 4 {
			go func() { durations <- ask("goulard", "tg") }()
		}
		synctest.Wait()
		for range 100 {
			if waited := ask("goulard", "tg"); waited != 0 {
				t.Errorf("a fifth waited for %v", waited)
			}
		}
		if waited := ask("dorlange", "td"); waited != 50*time.Second {
			t.Errorf("another handle waited for %v", waited)
		}
		for range 4 {
			if waited := <-durations; waited != 50*time.Second {
				t.Errorf("one of the four waited for %v", waited)
			}
		}
		if waited := ask("goulard", "tg"); waited != 50*time.Second || s.polling["goulard"] != 0 {
			t.Errorf("afterwards one waits for %v; counted %v", waited, s.polling)
		}
	})
}

// TestLongPollsOfInventedHandles checks that unproven callers, who can invent handles, together have
// at most a thousand long polls, and do not keep agents from waiting.
func TestLongPollsOfInventedHandles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(Options{Tokens: twoTokens(), Open: true})
		ask := func(handle, token string) time.Duration {
			r := httptest.NewRequest("GET", "http://127.0.0.1/mailbox/"+handle+"?wait=50s", nil)
			r.RemoteAddr = "127.0.0.1:1"
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			began := time.Now()
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if waited := time.Since(began); (w.Code == http.StatusTooManyRequests) != (waited == 0) || waited == 0 && w.Header().Get("Retry-After") != "5" {
				t.Errorf("%s: %d after %v", handle, w.Code, waited)
			}
			return time.Since(began)
		}
		var polls sync.WaitGroup
		for i := range maxUnprovenPolls {
			polls.Go(func() { ask(fmt.Sprint("liar", i), "") })
		}
		synctest.Wait()
		if waited := ask("another", ""); waited != 0 {
			t.Errorf("one more waited for %v", waited)
		}
		if waited := ask("goulard", "tg"); waited != 50*time.Second {
			t.Errorf("an agent waited for %v", waited)
		}
		polls.Wait()
		if waited := ask("another", ""); waited != 50*time.Second || s.pollingBy[""] != 0 || s.pollingAll != 0 {
			t.Errorf("afterwards one waited for %v; counted %d, %d", waited, s.pollingBy[""], s.pollingAll)
		}
	})
}

// TestLongPollWait checks that a long poll waits as long as requested, at most for a minute, or is
// refused.
func TestLongPollWait(t *testing.T) {
	const refused = -1
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(Options{Tokens: twoTokens()})
		for wait, want := range map[string]time.Duration{
			"": 0, "0": 0, "0s": 0, "-0s": 0, "1ns": 1, "50s": 50 * time.Second, "60s": MaxWait, "61s": MaxWait, "24h": MaxWait,
			"2562047h47m16.854775807s": MaxWait, "2562047h47m16.854775808s": refused, "1e9h": refused, "9999999999999999999h": refused,
			"-1ns": refused, "NaN": refused, "Inf": refused, "50": refused, "0x10s": refused, "50s50s": MaxWait, "%2B50s": 50 * time.Second,
			"50s&wait=1h": 50 * time.Second, "\x00": refused,
		} {
			r := httptest.NewRequest("GET", "http://127.0.0.1/mailbox/goulard", nil)
			r.URL.RawQuery = "wait=" + wait
			r.Header.Set("Authorization", "Bearer tg")
			w := httptest.NewRecorder()
			began := time.Now()
			s.ServeHTTP(w, r)
			waited := time.Since(began)
			if want == refused && (w.Code != http.StatusBadRequest || waited > 0) {
				t.Errorf("%q: %d after %v, want a refusal", wait, w.Code, waited)
			}
			if body := w.Body.String(); want != refused && (w.Code != http.StatusOK || waited != want || body != `{"halted":false,"messages":[]}`) {
				t.Errorf("%q: %d %s after %v, want %v", wait, w.Code, body, waited, want)
			}
		}
		if len(s.waiters) != 0 {
			t.Error("the mailbox still has a waiter")
		}
	})
}
