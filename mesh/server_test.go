package mesh

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"agentstateloop/state"
)

// testClock is the clock of a test's server.
type testClock struct{ time.Time }

func (a *testClock) now() time.Time { return a.Time }

func newTestClock() *testClock { return &testClock{time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)} }

// startServer runs a mesh on a loopback socket with its real timeouts.
func startServer(t *testing.T, o Options) (*Server, string) {
	t.Helper()
	s := NewServer(o)
	return s, serveMesh(t, s)
}

func serveMesh(t *testing.T, s *Server) string {
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

// twoTokens are the tokens of most tests.
func twoTokens() map[string]string { return map[string]string{"goulard": "tg", "dorlange": "td"} }

func client(url, handle, token string) *Client {
	return &Client{
		URL: url, Handle: handle, Timeout: time.Minute,
		Token: func(context.Context) (string, error) { return token, nil },
	}
}

// rawCall makes one raw call and returns the answer and its body.
func rawCall(t *testing.T, method, url, token, body string) (*http.Response, string) {
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

// TestCallsOfProfile makes each call of the profile on one mesh.
func TestCallsOfProfile(t *testing.T) {
	clock := newTestClock()
	_, url := startServer(t, Options{Tokens: twoTokens(), Now: clock.now})
	long := strings.Repeat("x", MaxMessage)
	for i, tt := range []struct {
		token, method, path, body string
		code                      int
		answer                    string // a part of it
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
		{"tg", "PUT", "/registry/goulard", `{"phase":"IDLE","tier":"rich"}`, 400, `invalid tier`},
		{"td", "POST", "/kill", "", 200, `{"halted":true}`},
		{"tg", "GET", "/mailbox/goulard", "", 200, `{"halted":true,`},
		{"", "GET", "/status", "", 200, `{"halted":true,"online":1,"waiting":3}`},
		{"td", "POST", "/resume", "", 200, `{"halted":false}`},

		// Calls that the token forbids.
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

		// Invalid calls.
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
		{"tg", "POST", "/message", `{"to":"dorlange","message":"x","result_fields":["a b"]}`, 400, `result_fields`},
		{"tg", "POST", "/message", `{"to":"dorlange","message":"x","correlation_id":"a\nb"}`, 400, `correlation_id`},
		{"tg", "POST", "/message", `{"to":"dorlange","message":"` + long + `"}`, 413, `65536`},
		{"tg", "POST", "/nudge/dorlange", `{"reason":"` + long + `"}`, 413, `65536`},
		{"tg", "PUT", "/registry/goulard", `{"callsign":"` + long + `"}`, 413, `65536`},
		{"tg", "POST", "/message", ``, 400, `JSON`},
		{"tg", "POST", "/message", `{"to":`, 400, `JSON`},
		{"tg", "POST", "/message", `{"to":1}`, 400, `JSON`},
		{"tg", "POST", "/message", `[]`, 400, `JSON`},
		{"tg", "POST", "/message", `{"to":"dorlange","message":"x"}{}`, 400, `JSON`},
		{"tg", "POST", "/message", `{"to":"dorlange","message":"x"}}`, 400, `JSON`},
		{"tg", "POST", "/message", strings.Repeat(`{"x":`, 9_000), 400, `JSON`},
		{"tg", "POST", "/message", `{"x":` + strings.Repeat("[", 60_000), 400, `JSON`},
		{"tg", "DELETE", "/mailbox/goulard/a%2Fb", "", 204, ``},
		{"tg", "DELETE", "/mailbox/goulard/..%2Fdorlange%2Fm1", "", 204, ``},
		{"tg", "DELETE", "/mailbox/goulard%2F..%2Fdorlange/m1", "", 400, `handle`},
		{"tg", "DELETE", "/mailbox/goulard/%00%0D%0A", "", 204, ``},
		{"tg", "DELETE", "/mailbox/goulard/", "", 400, `the path contains`},
		{"td", "GET", "/mailbox/dorlange", "", 200, `"to myself"`},
		{"tg", "GET", "/mailbox/goulard?wait=50", "", 400, `wait`},
		{"tg", "GET", "/mailbox/goulard?wait=-1s", "", 400, `wait`},
		{"tg", "GET", "/mailbox/a%2Fb", "", 400, `handle`},
		{"tg", "GET", "/mailbox/a.b", "", 400, `handle`},
		{"tg", "GET", "/mailbox/%2E%2E", "", 400, `handle`},
		{"tg", "GET", "/mailbox/../status", "", 400, `the path contains`},
		{"tg", "GET", "/mailbox//goulard", "", 400, `the path contains`},
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
		resp, body := rawCall(t, tt.method, url+tt.path, tt.token, tt.body)
		if resp.StatusCode != tt.code || !strings.Contains(body, tt.answer) {
			t.Errorf("%d: %s %s %.80s: got %d %.300s, want %d %s", i, tt.method, tt.path, tt.body, resp.StatusCode, body, tt.code, tt.answer)
		}
		if body != "" && resp.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%d: %s %s: answered as %q", i, tt.method, tt.path, resp.Header.Get("Content-Type"))
		}
	}
}

// TestClientAndServer checks that client and server speak the same profile.
func TestClientAndServer(t *testing.T) {
	_, url := startServer(t, Options{Tokens: twoTokens()})
	g, d := client(url, "goulard", "tg"), client(url, "dorlange", "td")
	ctx := t.Context()
	sent := Message{ID: "ask.1", To: "goulard", Text: "a <b> \"c\"\n\u2028", Kind: KindAsk, Correlation: "call", Hops: []string{"dorlange"}, ResultFields: ResultFields{{Name: "x", Required: true}, {Name: "n", Type: "integer", Description: "how many"}}, Trace: "trace.1"}
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
	mailbox, err := g.Mailbox(ctx, 0)
	if err != nil || len(mailbox.Messages) != 3 {
		t.Fatalf("mailbox: %+v, %v", mailbox, err)
	}
	got := mailbox.Messages[0]
	sent.From, sent.Proven, sent.SentAt = "dorlange", true, got.SentAt
	if fmt.Sprint(got) != fmt.Sprint(sent) || got.SentAt.IsZero() || got.Key() != "mesh:dorlange:ask.1" {
		t.Errorf("got %+v, want %+v", got, sent)
	}
	if n := mailbox.Messages[2]; n.Kind != KindNudge || n.Text != "wake up" || n.From != "dorlange" {
		t.Errorf("nudge: %+v", n)
	}
	for _, m := range mailbox.Messages {
		for range 2 {
			if err := g.Ack(ctx, m.ID); err != nil {
				t.Errorf("ack: %v", err)
			}
		}
	}
	if mailbox, err := g.Mailbox(ctx, 0); err != nil || len(mailbox.Messages) != 0 {
		t.Errorf("after ack: %+v, %v", mailbox, err)
	}
	if err := g.Register(ctx, Presence{Phase: state.PREP, Callsign: "@goulard", Wake: testWake("127.0.0.1:1", "goulard")}); err != nil {
		t.Error(err)
	}
	on, err := d.Online(ctx)
	if err != nil || len(on) != 1 || on[0].Handle != "goulard" || on[0].Phase != state.PREP || on[0].Wake != "" {
		t.Errorf("online: %+v, %v", on, err)
	}
	if err := d.Halt(ctx); err != nil {
		t.Error(err)
	}
	if mailbox, err := g.Mailbox(ctx, 0); err != nil || !mailbox.Halted {
		t.Errorf("halted: %+v, %v", mailbox, err)
	}
	if err := d.Go(ctx); err != nil {
		t.Error(err)
	}
	if s, err := d.Status(ctx); err != nil || s.Halted || s.Online != 1 {
		t.Errorf("status: %+v, %v", s, err)
	}
	if _, err := client(url, "goulard", "wrong").Mailbox(ctx, 0); err == nil {
		t.Error("a wrong token can read")
	} else if _, ok := state.CredentialFailure(err); !ok {
		t.Errorf("wrong token: %v", err)
	}
}

// TestAbusiveConnections checks that the server refuses a body of 100 MB without reading it, and
// closes a connection that sends no header.
func TestAbusiveConnections(t *testing.T) {
	t.Parallel()
	s := NewServer(Options{Open: true})
	start := func(readHeader time.Duration) (address string) {
		h := httptest.NewUnstartedServer(s)
		h.Config = s.HTTPServer()
		h.Config.ReadHeaderTimeout = readHeader
		h.Start()
		t.Cleanup(h.Close) // runs after the cleanups of the connections
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
	if err := (Options{Tokens: twoTokens()}).Check(); err != nil {
		t.Error(err)
	}
}

// TestHostileRequests checks that malformed requests, and requests that smuggle a second one, have no
// effect, and that the server still answers.
func TestHostileRequests(t *testing.T) {
	t.Parallel()
	s, url := startServer(t, Options{Tokens: twoTokens(), Now: newTestClock().now})
	address := strings.TrimPrefix(url, "http://")
	const auth, host = "Authorization: Bearer td\r\n", "Host: localhost\r\n"
	post := func(path, headers, body string) string {
		return "POST " + path + " HTTP/1.1\r\n" + host + auth + headers + "Connection: close\r\n\r\n" + body
	}
	nudge, kill := "/nudge/goulard", "/kill"
	requests := map[string]string{
		"two lengths":                 post(nudge, "Content-Length: 2\r\nContent-Length: 3\r\n", "{} "),
		"a negative length":           post(nudge, "Content-Length: -1\r\n", "{}"),
		"a length with a sign":        post(nudge, "Content-Length: +2\r\n", "{}"),
		"a length of 2^64":            post(nudge, "Content-Length: 18446744073709551616\r\n", "{}"),
		"a length of 2^63-1":          post(nudge, "Content-Length: 9223372036854775807\r\n", "{}"),
		"chunks of chunks":            post(nudge, "Transfer-Encoding: chunked, chunked\r\n", "2\r\n{}\r\n0\r\n\r\n"),
		"an unknown coding":           post(nudge, "Transfer-Encoding: gzip\r\n", "{}"),
		"a chunk of 2^64":             post(nudge, "Transfer-Encoding: chunked\r\n", "10000000000000000\r\n{}\r\n0\r\n\r\n"),
		"a negative chunk":            post(nudge, "Transfer-Encoding: chunked\r\n", "-2\r\n{}\r\n0\r\n\r\n"),
		"a chunk that is cut":         post(nudge, "Transfer-Encoding: chunked\r\n", "5\r\n{"),
		"a body that is cut":          post(nudge, "Content-Length: 3\r\n", "{"),
		"a coding with a tab":         post(nudge, "Transfer-Encoding:\tchunked\r\nContent-Length: 0\r\n X: y\r\n", ""),
		"no Host":                     "POST /kill HTTP/1.1\r\n" + auth + "\r\n",
		"no Host, 1.0":                "POST /kill HTTP/1.0\r\n" + auth + "\r\n",
		"two Hosts":                   "POST /kill HTTP/1.1\r\n" + host + "Host: evil.example\r\n" + auth + "\r\n",
		"another host in the line":    "POST http://evil.example/kill HTTP/1.1\r\n" + host + auth + "Connection: close\r\n\r\n",
		"a Host of bytes":             "POST /kill HTTP/1.1\r\nHost: local\x00host\r\n" + auth + "\r\n",
		"a Host with a user":          "POST /kill HTTP/1.1\r\nHost: evil@localhost\r\n" + auth + "Connection: close\r\n\r\n",
		"an empty Host":               "POST /kill HTTP/1.1\r\nHost:\r\n" + auth + "Connection: close\r\n\r\n",
		"CONNECT":                     "CONNECT /kill HTTP/1.1\r\n" + host + auth + "Connection: close\r\n\r\n",
		"TRACE":                       "TRACE /kill HTTP/1.1\r\n" + host + auth + "Connection: close\r\n\r\n",
		"GET of /kill":                "GET /kill HTTP/1.1\r\n" + host + auth + "Connection: close\r\n\r\n",
		"HEAD of /kill":               "HEAD /kill HTTP/1.1\r\n" + host + auth + "Connection: close\r\n\r\n",
		"a method in the header":      "GET /kill HTTP/1.1\r\n" + host + auth + "X-HTTP-Method-Override: POST\r\nConnection: close\r\n\r\n",
		"a method in small letters":   "post /kill HTTP/1.1\r\n" + host + auth + "Connection: close\r\n\r\n",
		"HTTP/2 by force":             "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"an upgrade":                  "GET /kill HTTP/1.1\r\n" + host + auth + "Upgrade: h2c\r\nConnection: upgrade, close\r\nHTTP2-Settings: \r\n\r\n",
		"HTTP/9":                      "POST /kill HTTP/9.9\r\n" + host + auth + "\r\n",
		"no version":                  "POST /kill\r\n\r\n",
		"a space in the path":         "POST /ki ll HTTP/1.1\r\n" + host + auth + "\r\n",
		"a bare line feed":            "POST /kill HTTP/1.1\nX: y\n" + auth + "\n",
		"a header without a name":     "POST /kill HTTP/1.1\r\n" + host + auth + ": y\r\n\r\n",
		"a space before the colon":    "POST /kill HTTP/1.1\r\n" + host + "Authorization : Bearer td\r\n\r\n",
		"a folded token":              "POST /kill HTTP/1.1\r\n" + host + "Authorization: Bearer\r\n td no\r\nConnection: close\r\n\r\n",
		"an encoded slash":            post("%2Fkill", "", ""),
		"encoded letters and a slash": post("/%6bill%2f", "", ""),
		"a second slash":              post("//kill", "", ""),
		"dots":                        post("/nudge/../kill", "", ""),
		"encoded dots":                post("/nudge/%2e%2e/kill", "", ""),
		"a backslash":                 post("/nudge\\..\\kill", "", ""),
		"a NUL":                       post("/kill%00", "", ""),
		"a bad escape":                post("/kill%zz", "", ""),
		"a matrix":                    post("/kill;x=y", "", ""),
		"a long path":                 post("/"+strings.Repeat("a", 64<<10), "", ""),
		"ten thousand headers":        post(kill, strings.Repeat("X: y\r\n", 10_000), ""),
		"Basic":                       "POST /kill HTTP/1.1\r\n" + host + "Authorization: Basic dGQ=\r\nConnection: close\r\n\r\n",
		"a scheme in front":           "POST /kill HTTP/1.1\r\n" + host + "Authorization: Basic Bearer td\r\nConnection: close\r\n\r\n",
		"two tokens in one":           "POST /kill HTTP/1.1\r\n" + host + "Authorization: Bearer no, Bearer td\r\nConnection: close\r\n\r\n",
		"a wrong token first":         "POST /kill HTTP/1.1\r\n" + host + "Authorization: Bearer no\r\n" + auth + "Connection: close\r\n\r\n",
		"a token in the path":         "POST /kill?access_token=td HTTP/1.1\r\n" + host + "Connection: close\r\n\r\n",
		"a token in a cookie":         "POST /kill HTTP/1.1\r\n" + host + "Cookie: token=td\r\nConnection: close\r\n\r\n",
		"a forwarded address":         "POST /kill HTTP/1.1\r\n" + host + "X-Forwarded-For: 127.0.0.1\r\nConnection: close\r\n\r\n",
		"a body in two":               post(nudge, "Content-Length: 40\r\n", "{}POST /kill HTTP/1.1\r\nHost: localhost\r\n"),
	}
	for name, request := range requests {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, request); err != nil && len(request) < 16<<10 {
			t.Errorf("%s: %v", name, err)
		}
		conn.(*net.TCPConn).CloseWrite()
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err == nil && resp.StatusCode < 300 {
			t.Errorf("%s: answered %s", name, resp.Status)
		}
		conn.Close()
	}
	s.mu.Lock()
	if s.ledger.halted || s.ledger.count > 0 {
		t.Errorf("halted %v, %d messages", s.ledger.halted, s.ledger.count)
	}
	s.mu.Unlock()
	if err := client(url, "dorlange", "td").Nudge(t.Context(), "goulard", "", ""); err != nil {
		t.Errorf("after %d hostile requests: %v", len(requests), err)
	}
}
