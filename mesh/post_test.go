package mesh

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// FuzzPost checks that any POST is either refused with a 4xx, or is in the mailbox once, from the
// sender that the token proves and within the limits.
func FuzzPost(f *testing.F) {
	for _, body := range []string{
		`{"id":"1","from":"goulard","to":"dorlange","message":"hi"}`, `{"to":"dorlange","message":"hi","kind":"ask","hops":["a","b"]}`,
		`{"to":"dorlange","kind":"report","correlation_id":"x","result_fields":["y"]}`, `{"from":"dorlange","to":"dorlange","message":"x"}`,
		`{"id":"a/b","to":"dorlange","message":"x"}`, `{"to":"dorlange","message":"\ud800","hops":[null]}`, `{"to":"DORLANGE"}`,
		`{"to":"dorlange","message":"x"}{}`, `[]`, `null`, ``, `{"to":"dorlange","message":"x","kind":"nudge"}`, `{"to":"dorlange","message":"x","extra":1}`,
		`{"to":"dorlange","message":"x","result_fields":["a b"]}`, `{"to":"dorlange","message":"x","result_fields":[null],"correlation_id":"\u0000"}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		s := NewServer(Options{Tokens: twoTokens()})
		defer s.Close()
		call := func(method, path, token, body string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(method, path, strings.NewReader(body))
			r.Host = "localhost"
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			return w
		}
		first := call("POST", "/message", "tg", string(body))
		if !json.Valid(first.Body.Bytes()) || first.Code != http.StatusAccepted && (first.Code < 400 || first.Code >= 500) {
			t.Fatalf("%q: %d %s", body, first.Code, first.Body)
		}
		var accepted struct{ ID string }
		var mailbox Mailbox
		if err := json.Unmarshal(call("GET", "/mailbox/dorlange", "td", "").Body.Bytes(), &mailbox); err != nil {
			t.Fatal(err)
		}
		if first.Code != http.StatusAccepted {
			if len(mailbox.Messages) > 0 {
				t.Errorf("%q was refused (%d), and stored: %+v", body, first.Code, mailbox.Messages)
			}
			return
		}
		if err := json.Unmarshal(first.Body.Bytes(), &accepted); err != nil {
			t.Fatal(err)
		}
		if len(mailbox.Messages) == 0 && strings.Contains(strings.ToLower(string(body)), "goulard") {
			return // to itself
		}
		if len(mailbox.Messages) != 1 {
			t.Fatalf("%q: %d messages", body, len(mailbox.Messages))
		}
		m := mailbox.Messages[0]
		if m.ID != accepted.ID || !validID(m.ID) || m.From != "goulard" || m.To != "dorlange" || !m.Proven || len(m.Hops) > MaxHops || m.Kind == KindNudge {
			t.Errorf("%q became %+v", body, m)
		}
		again, err := json.Marshal(postBody{ID: m.ID, From: m.From, To: m.To, Text: "again", Kind: KindMessage})
		if err != nil {
			t.Fatal(err)
		}
		if second := call("POST", "/message", "tg", string(again)); second.Code != http.StatusOK {
			t.Errorf("the same id again: %d %s", second.Code, second.Body)
		}
	})
}
