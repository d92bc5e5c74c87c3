package mesh

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"agentstateloop/internal/secret"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/state"
)

// serve starts h on a loopback socket and returns a client for it.
func serve(t *testing.T, h http.Handler) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return &Client{URL: s.URL, Handle: "goulard", Timeout: time.Minute}
}

func answerWith(code int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		io.WriteString(w, body)
	}
}

// calls has every method of the client.
var calls = map[string]func(context.Context, *Client) error{
	"mailbox": func(ctx context.Context, c *Client) error { _, err := c.Mailbox(ctx, 0); return err },
	"ack":     func(ctx context.Context, c *Client) error { return c.Ack(ctx, "x") },
	"send": func(ctx context.Context, c *Client) error {
		_, err := c.Send(ctx, Message{ID: "x", To: "b"})
		return err
	},
	"nudge":    func(ctx context.Context, c *Client) error { return c.Nudge(ctx, "b", "", "") },
	"register": func(ctx context.Context, c *Client) error { return c.Register(ctx, Presence{}) },
	"online":   func(ctx context.Context, c *Client) error { _, err := c.Online(ctx); return err },
	"status":   func(ctx context.Context, c *Client) error { _, err := c.Status(ctx); return err },
	"halt":     func(ctx context.Context, c *Client) error { return c.Halt(ctx) },
	"go":       func(ctx context.Context, c *Client) error { return c.Go(ctx) },
}

// TestServerIsNoMesh checks that every call to a server that is not a mesh returns a temporary error,
// because no mesh has refused the message.
func TestServerIsNoMesh(t *testing.T) {
	t.Parallel()
	endless := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		block := []byte(strings.Repeat(" ", 1<<16))
		for {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}
	var small bytes.Buffer // 16 MiB when unpacked
	z := gzip.NewWriter(&small)
	for range 1 << 8 {
		z.Write(make([]byte, 1<<16))
	}
	z.Close()
	bomb := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		answerWith(200, "application/json", small.String())(w, r)
	}
	hangUp := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "1000")
		io.WriteString(w, `{"halted":`)
	}
	raw := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(err)
			}
			io.WriteString(conn, text)
			conn.Close()
		}
	}
	for name, h := range map[string]http.HandlerFunc{
		"500":               answerWith(500, "text/plain", "oops"),
		"HTML":              answerWith(200, "text/html", "<html>welcome</html>"),
		"garbage":           answerWith(200, "application/json", "\x00\xff garbage"),
		"cut off JSON":      answerWith(200, "application/json", `{"halted":`+"\xff"),
		"a list":            answerWith(200, "application/json", `[]`),
		"null":              answerWith(200, "application/json", `null`),
		"wrong type":        answerWith(200, "text/plain", `{"halted":false}`),
		"no type":           answerWith(200, "", `{"halted":false}`),
		"10 MB":             answerWith(200, "application/json", `{"x":"`+strings.Repeat("x", 10<<20)+`"}`),
		"endless":           endless,
		"gzip bomb":         bomb,
		"closes mid-body":   hangUp,
		"closes at once":    raw(""),
		"not HTTP":          raw("220 mail.example ESMTP\r\n"),
		"endless header":    raw("HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 1<<20)),
		"redirect":          func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/status", http.StatusFound) },
		"switches protocol": raw("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, h)
			for call, do := range calls {
				if call != "mailbox" && call != "status" && name == "cut off JSON" {
					continue // these calls do not decode the object
				}
				err := do(t.Context(), c)
				e, ok := errors.AsType[*Error](err)
				if !ok {
					t.Errorf("%s: got %v, want an *Error", call, err)
				} else if !e.Temporary() {
					t.Errorf("%s: %v is not temporary", call, e)
				} else if len(e.Error()) > 400 {
					t.Errorf("%s: an error of %d bytes", call, len(e.Error()))
				}
			}
		})
	}
}

func TestUnreachableMesh(t *testing.T) {
	for name, url := range map[string]string{
		"down":      "http://" + mailtest.StartNobody(t),
		"empty":     "",
		"no scheme": "127.0.0.1:8801",
		"not http":  "unix:///run/mesh",
		"unparsed":  "http://u:hunter2@127.0.0.1:x",
	} {
		for call, do := range calls {
			err := do(t.Context(), &Client{URL: url, Handle: "goulard", Timeout: time.Minute})
			if e, ok := errors.AsType[*Error](err); !ok || e.Code != 0 || !e.Temporary() {
				t.Errorf("%s: %s: got %v", name, call, err)
			} else if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%s: %s: password in %v", name, call, err)
			}
		}
	}
}

// TestSilentMesh checks that a mesh that accepts a connection and never answers costs one timeout.
func TestSilentMesh(t *testing.T) {
	t.Parallel()
	done := make(chan struct{})
	c := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-done }))
	defer close(done)
	c.Timeout = 50 * time.Millisecond
	for call, do := range calls {
		if err := do(t.Context(), c); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got %v, want the deadline", call, err)
		}
	}
	c.Timeout = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Mailbox(ctx, time.Hour); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: got %v", err)
	}
}

// TestErrorKinds checks which statuses are temporary, and that 401 and 403 are credential failures.
func TestErrorKinds(t *testing.T) {
	for _, tt := range []struct {
		code                  int
		temporary, credential bool
	}{
		{400, false, false}, {401, false, true}, {403, false, true}, {404, false, false}, {408, true, false},
		{413, false, false}, {421, false, false}, {429, true, false}, {500, true, false}, {503, true, false}, {302, true, false},
	} {
		c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "7")
			answerWith(tt.code, "application/json", `{"error":"because\nof you"}`)(w, r)
		}))
		for call, do := range calls {
			if call == "ack" && tt.code == 404 {
				continue // gone already
			}
			err := do(t.Context(), c)
			e, ok := errors.AsType[*Error](err)
			if !ok {
				t.Fatalf("%s: %d: got %v", call, tt.code, err)
			}
			failure, isCredential := state.CredentialFailure(err)
			if e.Code != tt.code || e.Temporary() != tt.temporary || isCredential != tt.credential || e.RetryAfter != 7*time.Second {
				t.Errorf("%s: %d: got %+v, credential %v", call, tt.code, e, isCredential)
			}
			if isCredential && failure.Name != "mesh" {
				t.Errorf("%d: credential %q", tt.code, failure.Name)
			}
			if !strings.Contains(err.Error(), "because of you") {
				t.Errorf("%d: the reason is missing or raw: %q", tt.code, err)
			}
		}
	}
}

// TestTokenStaysSecret checks that no error contains the token, even if the mesh echoes it, and that
// no redirect and no proxy receives it.
func TestTokenStaysSecret(t *testing.T) {
	const token = "s3cret-token"
	echoes := map[string]http.HandlerFunc{
		"error":  answerWith(400, "application/json", `{"error":"bad `+token+`"}`),
		"denied": answerWith(401, "application/json", `{"error":"bad `+token+`"}`),
		"cut":    answerWith(400, "application/json", `{"error":"`+strings.Repeat("x", 195)+token+`"}`),
		"basic":  answerWith(403, "application/json", `{"error":"`+base64.StdEncoding.EncodeToString([]byte("x:"+token))+`"}`),
		"long":   answerWith(200, "text/"+strings.Repeat("x", 70)+token, `x`),
		"type":   answerWith(200, token+"/x", `x`),
		"time":   answerWith(200, "application/json", `{"messages":[{"sent_at":"`+token+`"}],"halted":"`+token+`"}`),
		"encoding": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", token)
			answerWith(200, "application/json", "x")(w, r)
		},
		"status line": func(w http.ResponseWriter, r *http.Request) {
			conn, _, _ := http.NewResponseController(w).Hijack()
			fmt.Fprintf(conn, "HTTP/1.1 %s\r\n\r\n", r.Header.Get("Authorization"))
			conn.Close()
		},
	}
	for name, h := range echoes {
		c := serve(t, h)
		c.Token = func(context.Context) (string, error) { return token + "\n", nil }
		_, err := c.Mailbox(t.Context(), 0)
		for _, form := range append(secret.Disguises(token), "s3cre") {
			if err == nil || strings.Contains(err.Error(), form) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}

	var stranger http.HandlerFunc = func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("another server got a request for %s with %q", r.URL, r.Header.Get("Authorization"))
	}
	other := serve(t, stranger)
	// net/http reads the environment's proxy once per process, and never uses it
	// for loopback. A variable set here would not show whether it is used.
	if plainClient(&net.Dialer{}).Transport.(*exchanger).transport().Proxy != nil {
		t.Error("a proxy would see the token")
	}
	c := serve(t, http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	c.Token = func(context.Context) (string, error) { return token, nil }
	for call, do := range calls {
		if err := do(t.Context(), c); err == nil {
			t.Errorf("%s: a redirect is not an error", call)
		}
	}
}

// TestTokenReading checks that a client reads the token once, and again after a refusal. A failure to
// read it is a credential failure.
func TestTokenReading(t *testing.T) {
	var reads int
	var got []string
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization"))
		code := http.StatusOK
		if r.Header.Get("Authorization") == "Bearer t2" {
			code = http.StatusUnauthorized
		}
		answerWith(code, "application/json", `{}`)(w, r)
	}))
	tokens := []string{"t1", "t2", "t3", ""}
	c.Token = func(context.Context) (string, error) { reads++; return tokens[reads-1], nil }
	for range 2 {
		if _, err := c.Status(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if reads != 1 {
		t.Errorf("read %d times for two calls", reads)
	}
	c.forget("t1")
	if _, err := c.Status(t.Context()); err == nil {
		t.Error("t2 was not refused")
	}
	if _, err := c.Status(t.Context()); err != nil {
		t.Errorf("after a refusal: %v", err)
	}
	if want := "[Bearer t1 Bearer t1 Bearer t2 Bearer t3]"; fmt.Sprint(got) != want {
		t.Errorf("sent %v, want %s", got, want)
	}

	broken := errors.New("no such file")
	for name, token := range map[string]func(context.Context) (string, error){
		"error":  func(context.Context) (string, error) { return "", broken },
		"broken": func(context.Context) (string, error) { return "two\nlines", nil },
	} {
		c.Token, c.token = token, ""
		for call, do := range calls {
			err := do(t.Context(), c)
			if f, ok := state.CredentialFailure(err); !ok || f.Name != "mesh" || strings.Contains(err.Error(), "lines") && name == "broken" && strings.Contains(err.Error(), "two") {
				t.Errorf("%s: %s: %v", name, call, err)
			}
		}
	}
	// A canceled call does not affect the cached token.
	ctx, cancel := context.WithCancel(t.Context())
	c.Token, c.token = func(ctx context.Context) (string, error) { cancel(); return "", ctx.Err() }, ""
	if _, err := c.Status(ctx); err == nil {
		t.Error("no error when canceled")
	} else if _, ok := state.CredentialFailure(err); ok {
		t.Errorf("canceled: %v", err)
	}
	if len(got) != 4 {
		t.Errorf("%d requests left without a readable token", len(got)-4)
	}
}

// TestPathsAreEscaped checks that a handle or id of any bytes reaches the server as one path segment.
func TestPathsAreEscaped(t *testing.T) {
	var path string
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.EscapedPath()
		w.WriteHeader(http.StatusNoContent)
	}))
	for id, want := range map[string]string{
		"reply.1":  "/mailbox/goulard/reply.1",
		"..":       "/mailbox/goulard/%2E%2E",
		".":        "/mailbox/goulard/%2E",
		"a/../b":   "/mailbox/goulard/a%2F..%2Fb",
		"a?b#c":    "/mailbox/goulard/a%3Fb%23c",
		"\x00\r\n": "/mailbox/goulard/%00%0D%0A",
		"\xff":     "/mailbox/goulard/%FF",
	} {
		if err := c.Ack(t.Context(), id); err != nil || path != want {
			t.Errorf("%q: requested %s, %v; want %s", id, path, err, want)
		}
	}
	c.Paths.Mailbox = "/v2/box"
	if err := c.Ack(t.Context(), "x"); err != nil || path != "/v2/box/goulard/x" {
		t.Errorf("another path: %s, %v", path, err)
	}
}

// TestStatusDate checks that Status reads the mesh's clock from the Date header, and is zero without
// one.
func TestStatusDate(t *testing.T) {
	noon := time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)
	for date, want := range map[string]time.Time{noon.Format(http.TimeFormat): noon, "": {}, "at noon": {}} {
		c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Date"] = []string{date}
			answerWith(200, "application/json", `{"online": 1}`)(w, r)
		}))
		if s, err := c.Status(t.Context()); err != nil || !s.Date.Equal(want) || s.Online != 1 {
			t.Errorf("Date %q: %+v, %v; want %v", date, s, err, want)
		}
	}
}
