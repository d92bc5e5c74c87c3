package hook_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"
	"time"

	"agentstateloop/cycle/hook"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/state"
)

var event = state.Announcement{Event: "task.failed", ID: "7.1", Agent: "goulard3120", Data: state.Details{From: "you@example.org", Reason: "line\none"}}

// deliver calls a hook, and returns its error as a text: permanent or not, how long to
// wait, and why.
func deliver(t *testing.T, h hook.Hook) string {
	t.Helper()
	body, err := h.Render(event)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = h.Deliver(ctx, hook.Call{ID: "hook.1", Event: event, Body: body})
	failed, ok := errors.AsType[*hook.Error](err)
	switch {
	case err == nil:
		return ""
	case !ok:
		t.Fatalf("%T: %v", err, err)
	}
	return fmt.Sprintf("%v %v %s", failed.Permanent, failed.RetryAfter, failed.Reason)
}

// TestProgram checks programs that fail, hang, print too much, or leave child processes.
func TestProgram(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script  string
		timeout time.Duration
		want    string // beginning of the error; "": taken
	}{
		"takes it":              {"grep -q '\"event\":\"task.failed\"' && test $AGENTSTATELOOP_EVENT-$AGENTSTATELOOP_DELIVERY-$HELLO = task.failed-hook.1-you", time.Minute, ""},
		"reads nothing":         {"exit 0", time.Minute, ""},
		"fails":                 {"echo first >&2; echo second >&2; exit 78", time.Minute, "false 0s exit status 78: second"},
		"hangs":                 {"trap '' TERM INT HUP; sleep 1000", 300 * time.Millisecond, "false 0s it timed out after 300ms"},
		"floods":                {"yes", time.Minute, "false 0s it was killed because its output exceeds 64 KiB"},
		"leaves a child behind": {"sleep 1000 & exit 0", time.Minute, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := hook.Hook{Name: "x", Timeout: c.timeout, Program: &hook.Program{
				Command: []string{"/bin/sh", "-c", c.script}, Dir: t.TempDir(), Env: []string{"PATH=/usr/bin:/bin", "HELLO=you"},
			}}
			if got := deliver(t, h); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	missing := hook.Hook{Name: "x", Timeout: time.Minute, Program: &hook.Program{Command: []string{filepath.Join(t.TempDir(), "none")}, Dir: os.TempDir()}}
	if got := deliver(t, missing); !strings.Contains(got, "no such file") || strings.HasPrefix(got, "true") {
		t.Errorf("a missing program: %q", got)
	}
}

// TestAddress checks how answers are classified, and that no answer can block or mislead us.
func TestAddress(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 14, 0, 0, 0, time.UTC)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	t.Cleanup(elsewhere.Close)
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/hang":
			<-hang
		case "/drip": // the header came, the body does not end
			w.WriteHeader(500)
			w.(http.Flusher).Flush()
			<-hang
		case "/flood":
			w.WriteHeader(500)
			for range 1000 {
				if _, err := w.Write(make([]byte, 64<<10)); err != nil {
					return
				}
			}
		case "/elsewhere":
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		case "/wait":
			w.Header().Set("Retry-After", "90")
			w.WriteHeader(429)
		case "/until":
			w.Header().Set("Retry-After", now.Add(100*time.Hour).Format(http.TimeFormat))
			w.WriteHeader(503)
		case "/forbidden":
			w.WriteHeader(403)
			fmt.Fprint(w, "go\x1b[2J away")
		case "/signed":
			at := r.Header.Get(hook.TimestampHeader)
			ok := at == fmt.Sprint(now.Unix()) && r.Header.Get(hook.SignatureHeader) == hook.Signature("a-long-secret", at, body) &&
				r.Header.Get("Authorization") == "Bearer a-long-token" && r.Header.Get(hook.EventHeader) == "task.failed" && r.Header.Get(hook.DeliveryHeader) == "hook.1" &&
				r.Header.Get("X-Mine") == "line one" && r.Header.Get("Content-Type") == "application/json"
			if !ok {
				w.WriteHeader(400)
			}
		case "/query":
			if r.FormValue("token") != "a+b/c&d==" || r.FormValue("x") != "1" || len(r.Header["X-Mine"]) > 0 {
				w.WriteHeader(400)
			}
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(hang) })
	says := func(text string) func(context.Context) (string, error) {
		return func(context.Context) (string, error) { return text, nil }
	}
	for path, want := range map[string]string{
		"/fine": "", "/signed": "",
		"/hang":      "false 0s it timed out after",
		"/drip":      "false 0s it timed out after",
		"/flood":     "false 0s the server answered 500",
		"/elsewhere": "true 0s the server answered 307 Temporary Redirect, and redirects are not followed",
		"/wait":      "false 1m30s the server answered 429",
		"/until":     "false 1h0m0s the server answered 503",
		"/forbidden": "true 0s the server answered 403 Forbidden: go [2J away",
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			h := hook.Hook{Name: "x", Timeout: time.Minute, Address: &hook.Address{
				URL: server.URL + path, ContentType: "application/json", Token: says("a-long-token"), Secret: says("a-long-secret"), Now: func() time.Time { return now },
				Headers: map[string]*template.Template{"X-Mine": template.Must(template.New("").Parse("{{.Data.Reason}}"))},
			}}
			if path == "/hang" || path == "/drip" {
				h.Timeout = 200 * time.Millisecond
			}
			if got := deliver(t, h); !strings.HasPrefix(got, want) || want == "" && got != "" {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
	t.Run("a token in the query", func(t *testing.T) {
		h := hook.Hook{Name: "x", Timeout: time.Minute, Address: &hook.Address{
			URL: server.URL + "/query?token={token}&x=1", Token: says("a+b/c&d=="),
			Headers: map[string]*template.Template{"X-Mine": template.Must(template.New("").Parse("{{index .Data.Reason 99}}"))}, // fails with this event
		}}
		if got := deliver(t, h); got != "" {
			t.Error(got)
		}
	})
	t.Run("nobody", func(t *testing.T) {
		h := hook.Hook{Name: "x", Timeout: time.Minute, Address: &hook.Address{URL: "http://" + mailtest.StartNobody(t) + "/{token}", Token: says("a-long-token")}}
		if got := deliver(t, h); !strings.Contains(got, "connection refused") || strings.Contains(got, "a-long-token") {
			t.Errorf("%q", got)
		}
	})
}

// TestRender checks that JSON replaces the output of a template that fails or exceeds the limit.
func TestRender(t *testing.T) {
	for text, want := range map[string]string{
		`{{.Text}}`:                       "@goulard3120: task failed, you@example.org: line one",
		`{"text": {{json .Data.Reason}}}`: `{"text": "line\none"}`,
		`{{index .Data.Reason 99}}`:       `{"event":"task.failed"`,
		`{{printf "%70000d" 1}}`:          `{"event":"task.failed"`,
		`{{.ID}}/{{.At.Year}}`:            "7.1/1",
	} {
		h := hook.Hook{Name: "x", Body: template.Must(template.New("").Funcs(hook.Functions()).Parse(text))}
		if got, err := h.Render(event); !strings.HasPrefix(string(got), want) || (err != nil) != strings.HasPrefix(want, `{"event"`) {
			t.Errorf("%s: %.200s, %v", text, got, err)
		}
	}
}

// TestCanceledCallIsNoHookFailure checks that a canceled call does not count as a failure of the
// hook.
func TestCanceledCallIsNoHookFailure(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h := hook.Hook{Name: "x", Program: &hook.Program{Command: []string{"/bin/true"}, Dir: t.TempDir()}}
	if err := h.Deliver(ctx, hook.Call{ID: "hook.1", Event: event}); !errors.Is(err, context.Canceled) {
		t.Errorf("%T: %v", err, err)
	}
}
