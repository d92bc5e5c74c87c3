package mesh

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// With --open, loopback needs no token and its messages are unproven. The
// mailbox of a handle that has a token stays closed.
func TestOpen(t *testing.T) {
	s, url := startServer(t, Options{Open: true, Tokens: map[string]string{"goulard": "tg"}})
	script := &Client{URL: url, Handle: "script", Timeout: time.Minute}
	for i, to := range []string{"goulard", "newcomer"} {
		if _, err := script.Send(t.Context(), Message{ID: fmt.Sprint(i), To: to, Text: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	box, err := client(url, "goulard", "tg").Mailbox(t.Context(), 0)
	if err != nil || len(box.Messages) != 1 || box.Messages[0].Proven {
		t.Errorf("goulard: %+v, %v", box, err)
	}
	box, err = (&Client{URL: url, Handle: "newcomer", Timeout: time.Minute}).Mailbox(t.Context(), 0)
	if err != nil || len(box.Messages) != 1 {
		t.Errorf("newcomer: %+v, %v", box, err)
	}
	for _, c := range []*Client{{URL: url, Handle: "goulard"}, client(url, "goulard", "wrong"), client(url, "newcomer", "tg")} {
		if _, err := c.Mailbox(t.Context(), 0); err == nil {
			t.Errorf("%s's mailbox is open", c.Handle)
		}
	}
	// The id of an unproven goulard does not block the proven one's.
	for _, token := range []string{"", "tg"} {
		if resp, _ := rawCall(t, "POST", url+"/message", token, `{"id":"r","from":"goulard","to":"script","message":"x"}`); resp.StatusCode != http.StatusAccepted {
			t.Errorf("token %q: %d", token, resp.StatusCode)
		}
	}
	// Any other address than loopback needs a token.
	r := httptest.NewRequest("POST", "http://127.0.0.1/message", strings.NewReader(`{"from":"a","to":"b","message":"x"}`))
	w := httptest.NewRecorder()
	if s.ServeHTTP(w, r); w.Code != http.StatusUnauthorized {
		t.Errorf("from %s: %d", r.RemoteAddr, w.Code)
	}
}

// Web pages are refused, under a rebound name and across sites.
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
