package mesh

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestOpenMesh checks that a mesh with --open needs no token on loopback, whose messages are
// unproven, and keeps the mailbox of a handle with a token closed.
func TestOpenMesh(t *testing.T) {
	s, url := startServer(t, Options{Open: true, Tokens: map[string]string{"goulard": "tg"}})
	script := &Client{URL: url, Handle: "script", Timeout: time.Minute}
	for i, to := range []string{"goulard", "newcomer"} {
		if _, err := script.Send(t.Context(), Message{ID: fmt.Sprint(i), To: to, Text: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	mailbox, err := client(url, "goulard", "tg").Mailbox(t.Context(), 0)
	if err != nil || len(mailbox.Messages) != 1 || mailbox.Messages[0].Proven {
		t.Errorf("goulard: %+v, %v", mailbox, err)
	}
	mailbox, err = (&Client{URL: url, Handle: "newcomer", Timeout: time.Minute}).Mailbox(t.Context(), 0)
	if err != nil || len(mailbox.Messages) != 1 {
		t.Errorf("newcomer: %+v, %v", mailbox, err)
	}
	for _, c := range []*Client{{URL: url, Handle: "goulard"}, client(url, "goulard", "wrong"), client(url, "newcomer", "tg")} {
		if _, err := c.Mailbox(t.Context(), 0); err == nil {
			t.Errorf("%s's mailbox is open", c.Handle)
		}
	}
	// An unproven message under the handle goulard does not block the same id for the proven
	// goulard.
	for _, token := range []string{"", "tg"} {
		if resp, _ := rawCall(t, "POST", url+"/message", token, `{"id":"r","from":"goulard","to":"script","message":"x"}`); resp.StatusCode != http.StatusAccepted {
			t.Errorf("token %q: %d", token, resp.StatusCode)
		}
	}
	// Callers from any other address than loopback need a token.
	r := httptest.NewRequest("POST", "http://127.0.0.1/message", strings.NewReader(`{"from":"a","to":"b","message":"x"}`))
	w := httptest.NewRecorder()
	if s.ServeHTTP(w, r); w.Code != http.StatusUnauthorized {
		t.Errorf("from %s: %d", r.RemoteAddr, w.Code)
	}
}

// TestBrowsersAreRefused checks that web pages are refused, under a rebound name and across sites.
func TestBrowsersAreRefused(t *testing.T) {
	_, url := startServer(t, Options{Open: true, Hosts: []string{"mesh.example"}})
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

// TestSenderLabels checks the labels that an open mesh makes of senders that are not agents. A label
// is never a handle, and cannot end a part of a key.
func TestSenderLabels(t *testing.T) {
	_, url := startServer(t, Options{Open: true, Tokens: map[string]string{"goulard": "tg"}})
	for from, want := range map[string]string{
		"backup.sh": "backup.sh", "Backup Job": "Backup_Job", " dorlange ": "dorlange", "dor lange": "dor_lange", "a:b/c": "a_b_c",
		"Zoë": "Zo_", "Goulard": "Goulard", "-x": "-x", "a\nb": "a_b", strings.Repeat("x", 100): strings.Repeat("x", 64),
	} {
		if got := label(from); got != want {
			t.Errorf("label(%q) = %q, want %q", from, got, want)
		}
		body, _ := json.Marshal(map[string]string{"from": from, "to": "goulard", "message": "x"})
		if resp, answer := rawCall(t, "POST", url+"/message", "", string(body)); resp.StatusCode != http.StatusAccepted {
			t.Errorf("%q: %d %s", from, resp.StatusCode, answer)
		}
		nudge, _ := json.Marshal(map[string]string{"from": from})
		if resp, answer := rawCall(t, "POST", url+"/nudge/goulard", "", string(nudge)); resp.StatusCode != http.StatusAccepted && resp.StatusCode != http.StatusTooManyRequests {
			t.Errorf("%q: nudge: %d %s", from, resp.StatusCode, answer)
		}
	}
	for body, want := range map[string]string{
		`{"to":"goulard","message":"x"}`:                            "from is missing: use a handle, or in a script any name; a handle has 1 to 32",
		`{"from":"  ","to":"goulard","message":"x"}`:                "from is missing",
		`{"from":"backup.sh","to":"Goulard","message":"x"}`:         "to is not a valid handle: a handle has 1 to 32 lower-case letters",
		`{"from":"backup.sh","to":"goulard","message":"x","id":""}`: "",
	} {
		resp, answer := rawCall(t, "POST", url+"/message", "", body)
		if want == "" && resp.StatusCode != http.StatusAccepted || !strings.Contains(answer, want) {
			t.Errorf("%s: %d %s", body, resp.StatusCode, answer)
		}
	}
	// A token proves one name.
	if resp, answer := rawCall(t, "POST", url+"/message", "tg", `{"from":"backup.sh","to":"goulard","message":"x"}`); resp.StatusCode != http.StatusForbidden || !strings.Contains(answer, "from must be goulard") {
		t.Errorf("with a token: %d %s", resp.StatusCode, answer)
	}
}
