package mesh

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agentstateloop/state"
)

// at is the clock of a test's server.
type at struct{ time.Time }

func (a *at) now() time.Time { return a.Time }

func newAt() *at { return &at{time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)} }

// start runs a mesh on a loopback socket with its real timeouts.
func start(t *testing.T, o Options) (*Server, string) {
	t.Helper()
	s := NewServer(o)
	return s, listen(t, s)
}

func listen(t *testing.T, s *Server) string {
	t.Helper()
	h := httptest.NewUnstartedServer(s)
	h.Config = s.HTTPServer()
	h.Start()
	t.Cleanup(func() {
		s.release()
		h.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return h.URL
}

// two are the tokens of most tests.
func two() map[string]string { return map[string]string{"goulard": "tg", "dorlange": "td"} }

func client(url, handle, token string) *Client {
	return &Client{
		URL: url, Handle: handle, Timeout: 20 * time.Second,
		Token: func(context.Context) (string, error) { return token, nil },
	}
}

// ask makes one raw call and gives the status and body.
func ask(t *testing.T, method, url, token, body string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return send(t, req)
}

func send(t *testing.T, req *http.Request) (*http.Response, string) {
	t.Helper()
	c := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

// The profile of DESIGN 8, call by call, in one mesh's life.
func TestProfile(t *testing.T) {
	clock := newAt()
	_, url := start(t, Options{Tokens: two(), Now: clock.now})
	long := strings.Repeat("x", MaxMessage)
	for i, tt := range []struct {
		token, method, path, body string
		code                      int
		answer                    string // contained
	}{
		{"", "GET", "/status", "", 200, `{"halted":false,"online":0,"waiting":0}`},
		{"td", "POST", "/message", `{"id":"m1","from":"dorlange","to":"goulard","message":"<hi>","new":1}`, 202, `{"id":"m1"}`},
		{"td", "POST", "/message", `{"id":"m1","from":"dorlange","to":"goulard","message":"other"}`, 200, `{"id":"m1"}`},
		{"td", "POST", "/message", `{"to":"goulard","kind":"report","correlation_id":"call1","hops":["a","b"],"result_fields":["sum"]}`, 202, `{"id":"`},
		{"tg", "GET", "/mailbox/goulard", "", 200, `{"halted":false,"messages":[{"id":"m1","from":"dorlange","to":"goulard","message":"<hi>","kind":"message","proven":true,"sent_at":"2026-03-01T10:00:00Z"},`},
		{"tg", "GET", "/mailbox/goulard", "", 200, `"message":"","kind":"report","correlation_id":"call1","hops":["a","b"],"result_fields":["sum"],"proven":true,`},
		{"tg", "GET", "/mailbox/goulard?wait=1ms", "", 200, `"m1"`},
		{"tg", "DELETE", "/mailbox/goulard/m1", "", 204, ``},
		{"tg", "DELETE", "/mailbox/goulard/m1", "", 204, ``},
		{"td", "POST", "/message", `{"id":"m1","from":"dorlange","to":"goulard","message":"again"}`, 200, `{"id":"m1"}`},
		{"td", "POST", "/message", `{"id":"m1","from":"dorlange","to":"dorlange","message":"to myself"}`, 202, `{"id":"m1"}`},
		{"td", "GET", "/mailbox/dorlange", "", 200, `"to myself"`},
		{"td", "POST", "/nudge/goulard", `{"from":"dorlange","reason":"look"}`, 202, ``},
		{"tg", "GET", "/mailbox/goulard", "", 200, `"from":"dorlange","to":"goulard","message":"look","kind":"nudge"`},
		{"tg", "PUT", "/registry/goulard", `{"phase":"ACTIVE","callsign":"@goulard"}`, 204, ``},
		{"td", "GET", "/registry/online", "", 200, `{"agents":[{"handle":"goulard","callsign":"@goulard","phase":"ACTIVE","seen_at":"2026-03-01T10:00:00Z"}]}`},
		{"tg", "PUT", "/registry/goulard", `{"phase":"IDLE","tier":"dead"}`, 204, ``},
		{"td", "GET", "/registry/online", "", 200, `"phase":"IDLE","tier":"dead","seen_at"`},
		{"tg", "PUT", "/registry/goulard", `{"phase":"IDLE","tier":"rich"}`, 400, `tier is not`},
		{"td", "POST", "/kill", "", 200, `{"halted":true}`},
		{"tg", "GET", "/mailbox/goulard", "", 200, `{"halted":true,`},
		{"", "GET", "/status", "", 200, `{"halted":true,"online":1,"waiting":3}`},
		{"td", "POST", "/resume", "", 200, `{"halted":false}`},

		// Who may.
		{"", "POST", "/message", `{"from":"goulard","to":"dorlange","message":"x"}`, 401, `token`},
		{"no", "POST", "/message", `{"from":"goulard","to":"dorlange","message":"x"}`, 401, `token`},
		{"no", "GET", "/status", "", 401, `token`},
		{"tg", "POST", "/message", `{"from":"dorlange","to":"dorlange","message":"x"}`, 403, `from`},
		{"tg", "POST", "/nudge/dorlange", `{"from":"dorlange"}`, 403, `from`},
		{"td", "GET", "/mailbox/goulard", "", 403, `goulard`},
		{"", "GET", "/mailbox/goulard", "", 401, `token`},
		{"td", "DELETE", "/mailbox/goulard/m1", "", 403, `goulard`},
		{"td", "PUT", "/registry/goulard", `{"phase":"IDLE"}`, 403, `goulard`},
		{"", "GET", "/registry/online", "", 401, `token`},
		{"", "POST", "/kill", "", 401, `token`},
		{"", "POST", "/resume", "", 401, `token`},

		// What may not.
		{"tg", "POST", "/message", `{"to":"nobody","message":"x"}`, 404, `unknown handle`},
		{"tg", "POST", "/nudge/nobody", `{}`, 404, `unknown handle`},
		{"tg", "POST", "/message", `{"to":"../dorlange","message":"x"}`, 400, `handle`},
		{"tg", "POST", "/message", `{"to":"dorlange","message":" "}`, 400, `empty`},
		{"tg", "POST", "/message", `{"to":"dorlange","message":"x","kind":"shout"}`, 400, `kind`},
		{"tg", "POST", "/message", `{"to":"dorlange","message":"x","kind":"nudge"}`, 400, `/nudge/`},
		{"tg", "POST", "/message", `{"to":"dorlange","message":"x","id":"a/b"}`, 400, `id`},
		{"tg", "POST", "/message", `{"to":"dorlange","message":"x","id":".."}`, 400, `id`},
		{"tg", "POST", "/message", `{"to":"dorlange","message":"x","hops":["a","b","c","d","e"]}`, 400, `hops`},
		{"tg", "POST", "/message", `{"to":"dorlange","message":"x","hops":["A"]}`, 400, `hops`},
		{"tg", "POST", "/message", `{"to":"dorlange","message":"` + long + `"}`, 413, `65536`},
		{"tg", "POST", "/nudge/dorlange", `{"reason":"` + long + `"}`, 413, `65536`},
		{"tg", "PUT", "/registry/goulard", `{"callsign":"` + long + `"}`, 413, `65536`},
		{"tg", "POST", "/message", ``, 400, `JSON`},
		{"tg", "POST", "/message", `{"to":`, 400, `JSON`},
		{"tg", "POST", "/message", `{"to":1}`, 400, `JSON`},
		{"tg", "POST", "/message", `[]`, 400, `JSON`},
		{"tg", "POST", "/message", `{"to":"dorlange","message":"x"}{}`, 400, `JSON`},
		{"tg", "GET", "/mailbox/goulard?wait=50", "", 400, `wait`},
		{"tg", "GET", "/mailbox/goulard?wait=-1s", "", 400, `wait`},
		{"tg", "GET", "/mailbox/a%2Fb", "", 400, `handle`},
		{"tg", "GET", "/mailbox/a.b", "", 400, `handle`},
		{"tg", "GET", "/mailbox/%2E%2E", "", 400, `handle`},
		{"tg", "GET", "/mailbox/../status", "", 400, `clean`},
		{"tg", "GET", "/mailbox//goulard", "", 400, `clean`},
		{"tg", "GET", "/mailbox/a/b", "", 405, `method not allowed`},
		{"tg", "GET", "/nothing", "", 404, `not found`},
		{"tg", "GET", "/message", "", 405, `method not allowed`},
		{"tg", "PUT", "/registry/goulard", `{"phase":"ASLEEP"}`, 400, `phase`},
		{"tg", "PUT", "/registry/goulard", `{"callsign":"a\nb"}`, 400, `callsign`},
		{"tg", "PUT", "/registry/goulard", `{"wake":"http://192.0.2.1:80/"}`, 400, `loopback`},
		{"tg", "PUT", "/registry/goulard", `{"wake":"http://127.0.0.1.example.com:80/"}`, 400, `loopback`},
		{"tg", "PUT", "/registry/goulard", `{"wake":"https://127.0.0.1:80/"}`, 400, `wake`},
		{"tg", "PUT", "/registry/goulard", `{"wake":"http://a:b@127.0.0.1:80/"}`, 400, `wake`},
		{"tg", "PUT", "/registry/goulard", `{"wake":"http://127.0.0.1/"}`, 400, `wake`},
	} {
		resp, body := ask(t, tt.method, url+tt.path, tt.token, tt.body)
		if resp.StatusCode != tt.code || !strings.Contains(body, tt.answer) {
			t.Errorf("%d: %s %s %.80s: got %d %.300s, want %d %s", i, tt.method, tt.path, tt.body, resp.StatusCode, body, tt.code, tt.answer)
		}
		if body != "" && resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%d: %s %s: answered as %q", i, tt.method, tt.path, resp.Header.Get("Content-Type"))
		}
	}
}

// Client and server speak the same profile.
func TestClientAndServer(t *testing.T) {
	_, url := start(t, Options{Tokens: two()})
	g, d := client(url, "goulard", "tg"), client(url, "dorlange", "td")
	ctx := t.Context()
	sent := Message{ID: "ask.1", To: "goulard", Text: "a <b> \"c\"\n\u2028", Kind: KindAsk, Correlation: "call", Hops: []string{"dorlange"}, ResultFields: []string{"x"}}
	for range 2 {
		if id, err := d.Send(ctx, sent); err != nil || id != "ask.1" {
			t.Fatalf("send: %q, %v", id, err)
		}
	}
	if id, err := d.Send(ctx, Message{To: "goulard", Text: "no id"}); err != nil || id == "" {
		t.Fatalf("send: %q, %v", id, err)
	}
	if err := d.Nudge(ctx, "goulard", "", "wake up"); err != nil {
		t.Fatal(err)
	}
	box, err := g.Mailbox(ctx, 0)
	if err != nil || len(box.Messages) != 3 {
		t.Fatalf("mailbox: %+v, %v", box, err)
	}
	got := box.Messages[0]
	sent.From, sent.Proven, sent.SentAt = "dorlange", true, got.SentAt
	if fmt.Sprint(got) != fmt.Sprint(sent) || got.SentAt.IsZero() || got.Key() != "mesh:dorlange:ask.1" {
		t.Errorf("got %+v, want %+v", got, sent)
	}
	if n := box.Messages[2]; n.Kind != KindNudge || n.Text != "wake up" || n.From != "dorlange" {
		t.Errorf("nudge: %+v", n)
	}
	for _, m := range box.Messages {
		for range 2 {
			if err := g.Ack(ctx, m.ID); err != nil {
				t.Errorf("ack: %v", err)
			}
		}
	}
	if box, err := g.Mailbox(ctx, 0); err != nil || len(box.Messages) != 0 {
		t.Errorf("after ack: %+v, %v", box, err)
	}
	if err := g.Register(ctx, Presence{Phase: state.PREP, Callsign: "@goulard", Wake: "http://127.0.0.1:1/secret"}); err != nil {
		t.Error(err)
	}
	on, err := d.Online(ctx)
	if err != nil || len(on) != 1 || on[0].Handle != "goulard" || on[0].Phase != state.PREP || on[0].Wake != "" {
		t.Errorf("online: %+v, %v", on, err)
	}
	if err := d.Halt(ctx); err != nil {
		t.Error(err)
	}
	if box, err := g.Mailbox(ctx, 0); err != nil || !box.Halted {
		t.Errorf("halted: %+v, %v", box, err)
	}
	if err := d.Go(ctx); err != nil {
		t.Error(err)
	}
	if s, err := d.Status(ctx); err != nil || s.Halted || s.Online != 1 {
		t.Errorf("status: %+v, %v", s, err)
	}
	if _, err := client(url, "goulard", "wrong").Mailbox(ctx, 0); err == nil {
		t.Error("a wrong token reads")
	} else if _, ok := state.CredentialFailure(err); !ok {
		t.Errorf("wrong token: %v", err)
	}
}

// Five messages a minute for each sender; a repeat is free, and the wait that
// is told suffices.
func TestPace(t *testing.T) {
	clock := newAt()
	_, url := start(t, Options{Tokens: two(), Now: clock.now})
	g, d := client(url, "goulard", "tg"), client(url, "dorlange", "td")
	post := func(c *Client, id string) error {
		_, err := c.Send(t.Context(), Message{ID: id, To: "goulard", Text: "x"})
		return err
	}
	for i := range 5 {
		if err := post(d, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
		clock.Time = clock.Add(time.Second)
	}
	err := post(d, "5")
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Code != http.StatusTooManyRequests || !e.Temporary() || e.RetryAfter != 55*time.Second {
		t.Fatalf("sixth: %v", err)
	}
	if err := post(d, "4"); err != nil {
		t.Errorf("repeat: %v", err)
	}
	if err := post(g, "5"); err != nil {
		t.Errorf("another sender: %v", err)
	}
	for range 10 {
		if err := d.Nudge(t.Context(), "goulard", "", ""); err != nil {
			t.Errorf("nudge: %v", err)
		}
	}
	clock.Time = clock.Add(e.RetryAfter)
	if err := post(d, "5"); err != nil {
		t.Errorf("after the wait: %v", err)
	}
	clock.Time = clock.Add(-24 * time.Hour)
	if err := post(d, "6"); err != nil {
		t.Errorf("after the clock was set back: %v", err)
	}
}

// Of a hundred nudges one is held; one that comes after the look is not
// acknowledged by it.
func TestNudgesCoalesce(t *testing.T) {
	_, url := start(t, Options{Tokens: two()})
	g, d := client(url, "goulard", "tg"), client(url, "dorlange", "td")
	held := func() []Message {
		box, err := g.Mailbox(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		return box.Messages
	}
	for i := range 100 {
		if err := d.Nudge(t.Context(), "goulard", "", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	first := held()
	if len(first) != 1 || first[0].Text != "99" {
		t.Fatalf("held: %+v", first)
	}
	if err := d.Nudge(t.Context(), "goulard", "", "late"); err != nil {
		t.Fatal(err)
	}
	if err := g.Ack(t.Context(), first[0].ID); err != nil {
		t.Fatal(err)
	}
	if late := held(); len(late) != 1 || late[0].Text != "late" {
		t.Errorf("after the acknowledgement: %+v", late)
	}
}

// A mailbox answers with at most 200 messages and 4 MiB, the oldest first, and
// acknowledging leads on to the rest.
func TestMailboxPages(t *testing.T) {
	for name, tt := range map[string]struct {
		text       string
		all, looks int
	}{"many": {"x", 450, 3}, "large": {strings.Repeat("\x01", 10_000), 150, 3}} {
		t.Run(name, func(t *testing.T) {
			clock := newAt()
			s, url := start(t, Options{Tokens: two(), Now: clock.now})
			g := client(url, "goulard", "tg")
			for i := range tt.all {
				clock.Time = clock.Add(time.Minute)
				if _, err := s.hold(Message{ID: fmt.Sprint(i), From: "dorlange", To: "goulard", Text: tt.text, Kind: KindMessage, Proven: true, SentAt: clock.now()}); err != nil {
					t.Fatal(err)
				}
			}
			next, looks := 0, 0
			for next < tt.all {
				box, err := g.Mailbox(t.Context(), 0)
				if err != nil || len(box.Messages) == 0 || len(box.Messages) > MaxMessages {
					t.Fatalf("%d messages, %v", len(box.Messages), err)
				}
				looks++
				for _, m := range box.Messages {
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

// Two senders who chose one id: neither message is lost to the other's
// acknowledgement.
func TestOneIDOfTwoSenders(t *testing.T) {
	_, url := start(t, Options{Tokens: two()})
	g, d := client(url, "goulard", "tg"), client(url, "dorlange", "td")
	for _, c := range []*Client{d, g} {
		if _, err := c.Send(t.Context(), Message{ID: "same", To: "goulard", Text: c.Handle}); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{"dorlange", "goulard"} {
		box, err := g.Mailbox(t.Context(), 0)
		if err != nil || len(box.Messages) != 1 || box.Messages[0].Text != want {
			t.Fatalf("want %s's: %+v, %v", want, box, err)
		}
		if err := g.Ack(t.Context(), "same"); err != nil {
			t.Fatal(err)
		}
	}
}

// A full mesh says so, and what lacks proof fills only half of it.
func TestFull(t *testing.T) {
	clock := newAt()
	s := NewServer(Options{Open: true, Now: clock.now})
	fill := func(proven bool) (n int) {
		for ; ; n++ {
			clock.Time = clock.Add(time.Minute)
			_, err := s.hold(Message{ID: fmt.Sprint(n), From: "a", To: "b", Proven: proven, Kind: KindMessage, SentAt: clock.now()})
			if r, ok := errors.AsType[*refusal](err); ok && r.code == http.StatusServiceUnavailable && r.after > 0 {
				return n
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := fill(false); n != maxBox/2 {
		t.Errorf("unproven: %d", n)
	}
	if n := fill(true); n != maxBox/2 {
		t.Errorf("proven: %d", n)
	}
	if err := s.holdNudge(Message{ID: "n", From: "a", To: "b", Kind: KindNudge}); err != nil {
		t.Errorf("nudge at a full mailbox: %v", err)
	}
}

// --open: loopback needs no token, what it says is unproven, and a handle that
// has a token keeps its mailbox.
func TestOpen(t *testing.T) {
	s, url := start(t, Options{Open: true, Tokens: map[string]string{"goulard": "tg"}})
	script := &Client{URL: url, Handle: "script", Timeout: 20 * time.Second}
	for i, to := range []string{"goulard", "newcomer"} {
		if _, err := script.Send(t.Context(), Message{ID: fmt.Sprint(i), To: to, Text: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	box, err := client(url, "goulard", "tg").Mailbox(t.Context(), 0)
	if err != nil || len(box.Messages) != 1 || box.Messages[0].Proven {
		t.Errorf("goulard: %+v, %v", box, err)
	}
	box, err = (&Client{URL: url, Handle: "newcomer", Timeout: 20 * time.Second}).Mailbox(t.Context(), 0)
	if err != nil || len(box.Messages) != 1 {
		t.Errorf("newcomer: %+v, %v", box, err)
	}
	for _, c := range []*Client{{URL: url, Handle: "goulard"}, client(url, "goulard", "wrong"), client(url, "newcomer", "tg")} {
		if _, err := c.Mailbox(t.Context(), 0); err == nil {
			t.Errorf("%s's mailbox is open", c.Handle)
		}
	}
	// The unproven goulard's id is no obstacle to the proven one's.
	for _, token := range []string{"", "tg"} {
		if resp, _ := ask(t, "POST", url+"/message", token, `{"id":"r","from":"goulard","to":"script","message":"x"}`); resp.StatusCode != http.StatusAccepted {
			t.Errorf("token %q: %d", token, resp.StatusCode)
		}
	}
	// From elsewhere than loopback there is no open door.
	r := httptest.NewRequest("POST", "http://127.0.0.1/message", strings.NewReader(`{"from":"a","to":"b","message":"x"}`))
	w := httptest.NewRecorder()
	if s.ServeHTTP(w, r); w.Code != http.StatusUnauthorized {
		t.Errorf("from %s: %d", r.RemoteAddr, w.Code)
	}
}

// Web pages get nothing: not under a rebound name, not across sites.
func TestBrowsersAreRefused(t *testing.T) {
	_, url := start(t, Options{Open: true, Hosts: []string{"mesh.example"}})
	for _, tt := range []struct {
		host, header, value string
		code                int
	}{
		{"", "", "", 200}, {"localhost:8801", "", "", 200}, {"[::1]:8801", "", "", 200}, {"127.0.0.1", "", "", 200},
		{"mesh.example:1", "", "", 200}, {"", "Sec-Fetch-Site", "none", 200},
		{"evil.example", "", "", 421}, {"evil.example:8801", "", "", 421}, {"localhost.evil.example", "", "", 421},
		{"192.0.2.7:8801", "", "", 421}, {"127.0.0.1.evil.example", "", "", 421},
		{"", "Origin", "http://127.0.0.1:8801", 403}, {"", "Origin", "null", 403}, {"", "Sec-Fetch-Site", "cross-site", 403},
		{"", "Sec-Fetch-Site", "same-origin", 403},
	} {
		req, err := http.NewRequest("GET", url+"/status", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = tt.host
		if tt.header != "" {
			req.Header.Set(tt.header, tt.value)
		}
		if resp, body := send(t, req); resp.StatusCode != tt.code {
			t.Errorf("%+v: got %d %s", tt, resp.StatusCode, body)
		}
	}
}

// A long poll ends when something arrives, at HALT and when the mesh is closed.
func TestLongPoll(t *testing.T) {
	s, url := start(t, Options{Tokens: two()})
	g, d := client(url, "goulard", "tg"), client(url, "dorlange", "td")
	for name, event := range map[string]func() error{
		"message": func() error { _, err := d.Send(t.Context(), Message{To: "goulard", Text: "x"}); return err },
		"nudge":   func() error { return d.Nudge(t.Context(), "goulard", "", "") },
		"halt":    func() error { return d.Halt(t.Context()) },
	} {
		box := poll(t, s, g, event)
		if name == "halt" && !box.Halted || name != "halt" && len(box.Messages) != 1 {
			t.Errorf("%s: %+v", name, box)
		}
		for _, m := range box.Messages {
			if err := g.Ack(t.Context(), m.ID); err != nil {
				t.Fatal(err)
			}
		}
		if err := d.Go(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if box := poll(t, s, g, func() error { s.release(); return nil }); len(box.Messages) != 0 {
		t.Errorf("stop: %+v", box)
	}
	if len(s.waiting) != 0 {
		t.Errorf("%d mailboxes are still waited for", len(s.waiting))
	}
}

// poll long-polls, makes event happen once the server waits, and gives the
// answer.
func poll(t *testing.T, s *Server, c *Client, event func() error) Mailbox {
	t.Helper()
	type result struct {
		box Mailbox
		err error
	}
	got := make(chan result)
	go func() {
		box, err := c.Mailbox(t.Context(), time.Minute)
		got <- result{box, err}
	}()
	for waits := false; !waits; {
		select {
		case r := <-got:
			t.Fatalf("did not wait: %+v, %v", r.box, r.err)
		default:
		}
		s.mu.Lock()
		waits = s.waiting[c.Handle] != nil
		s.mu.Unlock()
	}
	if err := event(); err != nil {
		t.Fatal(err)
	}
	r := <-got
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.box
}

// The wait is what was asked for, and a minute at most.
func TestLongPollWait(t *testing.T) {
	for asked, want := range map[string]time.Duration{"50s": 50 * time.Second, "24h": MaxWait} {
		synctest.Test(t, func(t *testing.T) {
			s := NewServer(Options{Open: true})
			r := httptest.NewRequest("GET", "http://127.0.0.1/mailbox/a?wait="+asked, nil)
			r.RemoteAddr = "127.0.0.1:1"
			w := httptest.NewRecorder()
			began := time.Now()
			s.ServeHTTP(w, r)
			if waited := time.Since(began); w.Code != 200 || waited != want {
				t.Errorf("%s: %d after %v", asked, w.Code, waited)
			}
			if got := w.Body.String(); got != `{"halted":false,"messages":[]}` {
				t.Errorf("%s: %s", asked, got)
			}
			if len(s.waiting) != 0 {
				t.Error("still waited for")
			}
		})
	}
}

// pipes is a listener whose connections live in a synctest bubble.
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

// loopbackConn is a pipe's end that looks like a connection from loopback.
type loopbackConn struct{ net.Conn }

func (loopbackConn) RemoteAddr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "tcp" }
func (pipeAddr) String() string  { return "127.0.0.1:1" }

// A long poll outlives the connection's timeouts, which are meant for calls
// that answer at once, and hears of what comes in its last second. Shutdown
// does not wait for one.
func TestLongPollOutlivesTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(Options{Open: true})
		conns := make(pipes)
		h := s.HTTPServer()
		go h.Serve(conns)
		c := &Client{URL: "http://127.0.0.1", Handle: "goulard", Timeout: 5 * time.Second, http: plainClient(&net.Dialer{})}
		c.http.Transport.(*http.Transport).DialContext = conns.dial
		time.AfterFunc(59*time.Second, func() {
			if err := s.holdNudge(Message{ID: "1", From: "a", To: "goulard", Kind: KindNudge}); err != nil {
				t.Error(err)
			}
		})
		box, err := c.Mailbox(t.Context(), time.Minute)
		if err != nil || len(box.Messages) != 1 {
			t.Errorf("got %+v, %v", box, err)
		}
		if err := c.Ack(t.Context(), "1"); err != nil {
			t.Error(err)
		}
		// A reader that goes away is not waited for.
		gone, leave := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, leave)
		if _, err := c.Mailbox(gone, time.Minute); !errors.Is(err, context.Canceled) {
			t.Errorf("gone: %v", err)
		}
		synctest.Wait()
		if len(s.waiting) != 0 {
			t.Error("a reader that is gone is still served")
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

// A nudge and a message ring the wake address; a burst makes few calls, the
// last of them after the last nudge; an address where nobody listens any more
// is forgotten.
func TestWake(t *testing.T) {
	rung := make(chan ring, 200)
	hold := make(chan struct{})
	listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var got ring
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil || r.Method != "POST" || r.URL.Path != "/secret" {
			t.Errorf("rung by %s %s: %v", r.Method, r.URL, err)
		}
		rung <- got
		<-hold
	}))
	defer listener.Close()
	s, url := start(t, Options{Tokens: two()})
	g, d := client(url, "goulard", "tg"), client(url, "dorlange", "td")
	if err := g.Register(t.Context(), Presence{Phase: state.IDLE, Wake: listener.URL + "/secret"}); err != nil {
		t.Fatal(err)
	}
	// A poll that publishes its phase leaves the listener's address alone.
	if err := g.Register(t.Context(), Presence{Phase: state.PREP}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Send(t.Context(), Message{To: "goulard", Text: "x"}); err != nil {
		t.Fatal(err)
	}
	if r := <-rung; r.From != "dorlange" || r.Reason != KindMessage {
		t.Errorf("rung by %+v", r)
	}
	began := time.Now()
	for i := range 100 { // while the first call is still on
		if err := d.Nudge(t.Context(), "goulard", "", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	close(hold)
	s.rings.Wait()
	listener.Close() // waits for those that it answers
	// One call, and one for each time that a call was given up meanwhile.
	if most := 1 + int(time.Since(began)/(2*time.Second)); len(rung) > most {
		t.Errorf("%d calls, want %d at most", len(rung), most)
	}
	var said []string
	for len(rung) > 0 {
		said = append(said, (<-rung).Reason)
	}
	if !slices.Contains(said, "99") {
		t.Errorf("the calls after the burst say %q", said)
	}

	if err := s.callWake("http://192.0.2.1:9/", ring{}); err == nil || !strings.Contains(err.Error(), "not loopback") {
		t.Errorf("a ring off the machine: %v", err)
	}
	if err := d.Nudge(t.Context(), "goulard", "", ""); err != nil {
		t.Fatal(err)
	}
	s.rings.Wait()
	if wake := s.ledger.agents["goulard"].Wake; wake != "" {
		t.Errorf("still rings %s", wake)
	}
}

func TestOnline(t *testing.T) {
	clock := newAt()
	_, url := start(t, Options{Tokens: two(), Now: clock.now})
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
	if _, err := g.Mailbox(t.Context(), 0); err != nil { // a look counts as well
		t.Fatal(err)
	}
	clock.Time = clock.Add(10 * time.Minute)
	if got := online(); got != "goulard " {
		t.Errorf("after 40 minutes: %s", got)
	}
}

// A body of 100 MB is refused without being read, and a connection that sends
// no header is closed by the server.
func TestAbusiveConnections(t *testing.T) {
	s := NewServer(Options{Open: true})
	start := func(readHeader time.Duration) (address string) {
		h := httptest.NewUnstartedServer(s)
		h.Config = s.HTTPServer()
		h.Config.ReadHeaderTimeout = readHeader
		h.Start()
		t.Cleanup(h.Close) // after the connections'
		return h.Listener.Addr().String()
	}
	address := start(time.Minute)

	dial := func(text string) *bufio.Reader {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		return bufio.NewReader(conn)
	}
	resp, err := http.ReadResponse(dial("POST /message HTTP/1.1\r\nHost: localhost\r\nContent-Length: 104857600\r\n\r\n{"), nil)
	if err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("100 MB: %v, %v", resp, err)
	}
	endless := "POST /message HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n12000\r\n{" + strings.Repeat(" ", 70_000)
	if resp, err := http.ReadResponse(dial(endless), nil); err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("endless: %v, %v", resp, err)
	}
	if resp, err := http.ReadResponse(dial("GET /status HTTP/1.1\r\nHost: localhost\r\nX: "+strings.Repeat("x", 64<<10)+"\r\n\r\n"), nil); err != nil || resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("long header: %v, %v", resp, err)
	}
	address = start(50 * time.Millisecond)
	var slow []*bufio.Reader
	for range 200 {
		slow = append(slow, dial("GET /status HTTP/1.1\r\nHost: loc"))
	}
	for _, conn := range slow {
		io.Copy(io.Discard, conn) // until the server closes
	}
}

func TestOptionsCheck(t *testing.T) {
	for name, tokens := range map[string]map[string]string{
		"handle": {"../a": "hunter2"}, "empty": {"a": ""}, "space": {"a": "hunter2\n"}, "same": {"a": "hunter2", "b": "hunter2"},
	} {
		if err := (Options{Tokens: tokens}).Check(); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (Options{Tokens: two()}).Check(); err != nil {
		t.Error(err)
	}
}
