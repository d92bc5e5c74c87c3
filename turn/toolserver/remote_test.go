package toolserver_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agentstateloop/internal/secret"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/turn/toolserver"
)

const token = "hunter2-hunter2"

// handler answers a request, or returns false for the usual answer.
type handler func(w http.ResponseWriter, r *http.Request, method string) bool

// remote is a server by streamable HTTP that requires the token.
type remote struct {
	*httptest.Server
	do handler // optional

	sessions, leaked atomic.Int64
}

func newRemote(t *testing.T) *remote {
	t.Helper()
	s := &remote{}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *remote) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	method := ""
	for _, m := range []string{"server/discover", "initialize", "notifications/initialized", "tools/list", "tools/call"} {
		if strings.Contains(string(body), `"method":"`+m+`"`) {
			method = m
		}
	}
	id := "1"
	if _, after, ok := strings.Cut(string(body), `"id":`); ok {
		id = after[:strings.IndexAny(after, ",}")]
	}
	if s.do != nil && s.do(w, r, method) {
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+token {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	result := map[string]string{"initialize": greeting, "tools/list": tools("echo"), "tools/call": text("heard with " + r.Header.Get("Authorization"))}[method]
	if result == "" {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if method == "initialize" {
		w.Header().Set("Mcp-Session-Id", fmt.Sprint("session-", s.sessions.Add(1)))
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

func (s *remote) server() toolserver.Server {
	secrets := &secret.Known{}
	secrets.Learn("test", token)
	return toolserver.Server{
		Name: "far", URL: s.URL + "/mcp", Timeout: 5 * time.Minute, Secrets: secrets,
		Token: func(context.Context) (string, error) { return token, nil },
	}
}

// TestRemoteServerRefuses checks the reasons of a start that fails, and that the token is sent only to
// the server.
func TestRemoteServerRefuses(t *testing.T) {
	t.Parallel()
	other := newRemote(t)
	other.do = func(_ http.ResponseWriter, r *http.Request, _ string) bool {
		other.leaked.Add(1)
		return false
	}
	status := func(code int) handler {
		return func(w http.ResponseWriter, _ *http.Request, _ string) bool {
			w.WriteHeader(code)
			fmt.Fprint(w, "no, "+token)
			return true
		}
	}
	block := strings.Repeat("x", 1<<20)
	endless := func(kind string) handler {
		return func(w http.ResponseWriter, _ *http.Request, _ string) bool {
			w.Header().Set("Content-Type", kind)
			for {
				if _, err := io.WriteString(w, block); err != nil {
					return true
				}
			}
		}
	}
	for name, c := range map[string]struct {
		do   handler
		bare bool // without a token
		want string
	}{
		"without a token":  {nil, true, "did not start: it requires a token (401 Unauthorized): write the token to a file and set token_file"},
		"a wrong token":    {status(401), false, "it refused the token (401 Unauthorized): check token_file"},
		"forbidden":        {status(403), false, "it refused the token (403 Forbidden)"},
		"not found":        {status(404), false, "no MCP server at this address (404 Not Found): check url"},
		"broken":           {status(500), false, "it answered 500 Internal Server Error"},
		"a page":           {func(w http.ResponseWriter, _ *http.Request, _ string) bool { fmt.Fprint(w, "<html>"); return true }, false, "unsupported content type"},
		"endless JSON":     {endless("application/json"), false, "its answer exceeds 64 MiB"},
		"an endless event": {endless("text/event-stream"), false, "did not start"},
		"moved": {func(w http.ResponseWriter, r *http.Request, _ string) bool {
			http.Redirect(w, r, other.URL+"/"+token, http.StatusTemporaryRedirect)
			return true
		}, false, "it has moved (307 Temporary Redirect): set url to " + other.URL + "/***"},
		"moved permanently": {func(w http.ResponseWriter, r *http.Request, _ string) bool {
			http.Redirect(w, r, other.URL, http.StatusMovedPermanently)
			return true
		}, false, "it has moved (301"},
	} {
		t.Run(name, func(t *testing.T) {
			far := newRemote(t)
			far.do = c.do
			s := far.server()
			if c.bare {
				s.Token = nil
			}
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			session, err := toolserver.Start(ctx, s)
			if err == nil {
				session.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), token) {
				t.Errorf("%v; want %q", err, c.want)
			}
		})
	}
	if other.leaked.Load() > 0 {
		t.Error("a redirect was followed")
	}
	s := newRemote(t).server()
	s.URL = "http://" + mailtest.StartNobody(t) // a program that another test starts holds our listeners for a moment
	if _, err := toolserver.Start(t.Context(), s); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("a closed port: %v", err)
	}
	s.Token = func(context.Context) (string, error) { return "", errors.New("read secret: far.token is empty") }
	if _, err := toolserver.Start(t.Context(), s); err == nil || !strings.Contains(err.Error(), "did not start: read secret: far.token is empty") {
		t.Errorf("a token that cannot be read: %v", err)
	}
}

// TestRemoteSessionExpires checks that the session begins again after the server has ended it, with
// its token, which is redacted in the result, and that the call between is not repeated.
func TestRemoteSessionExpires(t *testing.T) {
	t.Parallel()
	far := newRemote(t)
	var calls atomic.Int64
	far.do = func(w http.ResponseWriter, r *http.Request, method string) bool {
		if method == "tools/call" && calls.Add(1) == 1 {
			w.WriteHeader(http.StatusNotFound)
			return true
		}
		return false
	}
	_, call := start(t, far.server())
	if _, err := call("echo", `{}`); err == nil || !strings.Contains(err.Error(), "the session has expired") || !strings.Contains(err.Error(), "check before you repeat") {
		t.Errorf("the call: %v", err)
	}
	if calls.Load() != 1 {
		t.Errorf("the call was made %d times", calls.Load())
	}
	if got, err := call("echo", `{}`); err != nil || got != "heard with Bearer ***" {
		t.Errorf("the next call: %q, %v", got, err)
	}
	if far.sessions.Load() != 2 {
		t.Errorf("%d sessions", far.sessions.Load())
	}
}

// TestRemoteServerHangs checks that a call ends at its timeout.
func TestRemoteServerHangs(t *testing.T) {
	t.Parallel()
	far := newRemote(t)
	held := make(chan struct{})
	t.Cleanup(func() { close(held) })
	far.do = func(_ http.ResponseWriter, _ *http.Request, method string) bool {
		if method == "tools/call" {
			<-held
		}
		return false
	}
	s := far.server()
	s.Timeout = 500 * time.Millisecond
	_, call := start(t, s)
	for range 3 {
		if _, err := call("echo", `{}`); err == nil || !strings.Contains(err.Error(), "did not answer within 500ms") {
			t.Errorf("%v", err)
		}
	}
	if _, err := call("echo", `{}`); err == nil || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("the fourth call: %v", err)
	}
}
