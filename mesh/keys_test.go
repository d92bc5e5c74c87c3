package mesh

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"agentstateloop/state"
)

// TestTextNamedBody reads messages whose text is named body, in an answer of a mesh and in a POST to
// our server.
func TestTextNamedBody(t *testing.T) {
	for _, tt := range []struct{ raw, text, reason string }{
		{`{"id":"a","to":"b","from":"c","body":"hello"}`, "hello", ""},
		{`{"id":"a","to":"b","from":"c","BODY":"hello"}`, "hello", ""},
		{`{"id":"a","to":"b","from":"c","message":"hello","body":"hello"}`, "hello", ""},
		{`{"id":"a","to":"b","from":"c","message":"h\u0065llo","body":"hello"}`, "hello", ""},
		{`{"id":"a","to":"b","from":"c","message":"hello","body":null}`, "hello", ""},
		{`{"id":"a","to":"b","from":"c","message":null,"body":"hello"}`, "hello", ""},
		{`{"id":"a","to":"b","from":"c","message":"hello","body":"bye"}`, "", "its message and its body are different texts"},
		{`{"id":"a","to":"b","from":"c","message":"hello","body":""}`, "", "its message and its body are different texts"},
		{`{"id":"a","to":"b","from":"c","message":"","body":"hello"}`, "", "its message and its body are different texts"},
		{`{"id":"a","to":"b","from":"c","body":7}`, "", "cannot unmarshal number"},
		{`{"id":"a","to":"b","from":"c","body":"x","Body":"y"}`, "", "it contains body twice"},
	} {
		m, err := Decode([]byte(tt.raw))
		if m.Text != tt.text || (err == nil) != (tt.reason == "") || err != nil && !strings.Contains(err.Error(), tt.reason) {
			t.Errorf("%s: %q, %v; want %q, %q", tt.raw, m.Text, err, tt.text, tt.reason)
		}
		if strings.Contains(tt.reason, "twice") {
			continue // net/http's decoder takes the last one
		}
		s := NewServer(Options{Open: true})
		c := serve(t, s)
		resp, err := http.Post(c.URL+"/message", "application/json", strings.NewReader(tt.raw))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		c.Handle = "b"
		mailbox, err := c.Mailbox(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case tt.reason != "" && (resp.StatusCode != 400 || !mailbox.Empty()):
			t.Errorf("%s: posted: %d, %+v", tt.raw, resp.StatusCode, mailbox)
		case tt.reason == "" && (resp.StatusCode != 202 || len(mailbox.Messages) != 1 || mailbox.Messages[0].Text != tt.text):
			t.Errorf("%s: posted: %d, %+v", tt.raw, resp.StatusCode, mailbox)
		}
	}
}

// TestRenamedKeys calls a mesh that has other names for all members.
func TestRenamedKeys(t *testing.T) {
	posted := map[string]map[string]json.RawMessage{}
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b, _ := io.ReadAll(r.Body); len(b) > 0 {
			var object map[string]json.RawMessage
			if err := json.Unmarshal(b, &object); err != nil {
				t.Error(err)
			}
			posted[r.URL.Path] = object
		}
		body := map[string]string{
			"POST /message": `{"ref":"m1","id":"row 17"}`, "POST /nudge/other": `{"ref":"n1"}`, "PUT /registry/goulard": `{}`,
			"GET /mailbox/goulard": `{"stopped":true,"items":[
				{"ref":"m2","sender":"other","text":"hi","message":"a subject","thread":"m1","proven":true,"verified":false,"sent_at":"2026-01-02T03:04:05Z"},
				{"ref":"m3","sender":"other","text":7,"from":"forged"}]}`,
			"GET /registry/online": `{"members":[{"name":"other","phase":"IDLE"}]}`,
			"GET /status":          `{"stopped":true,"online":3}`,
		}[r.Method+" "+r.URL.Path]
		answerWith(200, "application/json", body)(w, r)
	}))
	c.KeysIn = Keys{"id": "ref", "halted": "stopped", "messages": "items", "from": "Sender", "message": "text", "correlation_id": "thread", "agents": "members", "handle": "name"}
	c.KeysOut = Keys{"id": "ref", "message": "text", "from": "sender", "reason": "why", "phase": "state"}
	for _, keys := range []func() (string, error){c.KeysIn.CheckIn, c.KeysOut.CheckOut} {
		if key, err := keys(); err != nil {
			t.Fatal(key, err)
		}
	}
	if id, err := c.Send(t.Context(), Message{ID: "m1", To: "other", Text: "which commit?", Hops: []string{"a"}}); id != "m1" || err != nil {
		t.Errorf("sent %q, %v", id, err)
	}
	if err := c.Nudge(t.Context(), "other", "", "look"); err != nil {
		t.Error(err)
	}
	if err := c.Register(t.Context(), Presence{Callsign: "@goulard", Phase: state.PREP}); err != nil {
		t.Error(err)
	}
	names := func(path string) string {
		b, _ := json.Marshal(posted[path])
		return string(b)
	}
	for path, want := range map[string]string{
		"/message":          `{"hops":["a"],"ref":"m1","sender":"goulard","text":"which commit?","to":"other"}`,
		"/nudge/other":      `{"sender":"goulard","why":"look"}`,
		"/registry/goulard": `{"callsign":"@goulard","state":"PREP"}`,
	} {
		if got := names(path); got != want {
			t.Errorf("%s: posted %s, want %s", path, got, want)
		}
	}
	mailbox, err := c.Mailbox(t.Context(), 0)
	if err != nil || len(mailbox.Messages) != 1 || len(mailbox.Undecoded) != 1 {
		t.Fatalf("%+v, %v", mailbox, err)
	}
	want := Message{ID: "m2", From: "other", Text: "hi", Kind: KindMessage, Correlation: "m1", Proven: true, SentAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	if !mailbox.Halted || !reflect.DeepEqual(mailbox.Messages[0], want) {
		t.Errorf("read %+v, want %+v", mailbox.Messages[0], want)
	}
	if u := mailbox.Undecoded[0]; u.ID != "m3" || u.From != "other" || !strings.Contains(string(u.Raw), `"text":7`) {
		t.Errorf("set aside %+v", u)
	}
	if online, err := c.Online(t.Context()); err != nil || len(online) != 1 || online[0].Handle != "other" {
		t.Errorf("online: %+v, %v", online, err)
	}
	if s, err := c.Status(t.Context()); err != nil || !s.Halted || s.Online != 3 {
		t.Errorf("status: %+v, %v", s, err)
	}
}

// TestProvenCannotBeRenamed checks that no other member of a message can be read as proven.
func TestProvenCannotBeRenamed(t *testing.T) {
	for _, k := range []Keys{{"proven": "verified"}, {"proven": "proven"}, {"kind": "proven"}, {"kind": "PROVEN"}} {
		if key, err := k.CheckIn(); err == nil {
			t.Errorf("%v is accepted", k)
		} else if key == "" {
			t.Errorf("%v: %v names no key", k, err)
		}
	}
	if _, err := (Keys{"proven": "x"}).CheckOut(); err == nil {
		t.Error("we could claim a proof")
	}
}

// TestKeyClashes checks that two members of an object cannot have the same name.
func TestKeyClashes(t *testing.T) {
	for _, k := range []Keys{{"message": "id"}, {"message": "From"}, {"from": "x", "to": "X"}, {"message": ""}, {"message": "a b"}, {"x": "y"}, {"messages": "halted"}} {
		if key, err := k.CheckIn(); err == nil || key == "" {
			t.Errorf("%v is accepted", k)
		}
	}
	for _, k := range []Keys{nil, {"message": "body"}, {"from": "to", "to": "from"}, {"messages": "message"}, {"message": "messages"}} {
		if key, err := k.CheckIn(); err != nil {
			t.Errorf("%v: %s: %v", k, key, err)
		}
	}
}

// TestReceiptNamesMessage checks that only an answer that names the message confirms it, because
// another service on the port may answer 200 to anything.
func TestReceiptNamesMessage(t *testing.T) {
	for _, code := range []int{200, 201, 202} {
		for _, body := range []string{`{}`, `{"id":""}`, `{"id":"other"}`, `{"ok":true}`, `{"id":"X"}`, `{"message":{"id":"x"}}`} {
			_, err := serve(t, answerWith(code, "application/json", body)).Send(t.Context(), Message{ID: "x", To: "b", Text: "hello"})
			if e, ok := errors.AsType[*Error](err); !ok || !e.Temporary() || !errors.Is(err, ErrNotTaken) {
				t.Errorf("%d %s: %v", code, body, err)
			}
		}
		if _, err := serve(t, answerWith(code, "application/json", `{"id":"x"}`)).Send(t.Context(), Message{ID: "x", To: "b", Text: "hello"}); err != nil {
			t.Error(err)
		}
		if err := serve(t, answerWith(code, "application/json", `{}`)).Nudge(t.Context(), "b", "", ""); err == nil {
			t.Error("a nudge counts as delivered without a confirmation")
		}
	}
	// A response without a body or with plain text does not confirm the message. An HTML page comes
	// from another service.
	for _, c := range []struct{ kind, body string }{{"", ""}, {"text/plain", "OK"}, {"application/json", `"queued"`}, {"application/json", "[]"}} {
		client := serve(t, answerWith(200, c.kind, c.body))
		if _, err := client.Send(t.Context(), Message{ID: "x", To: "b", Text: "hello"}); !errors.Is(err, ErrNotTaken) {
			t.Errorf("%s %q: %v", c.kind, c.body, err)
		}
		client.StatusIsReceipt = true
		if id, err := client.Send(t.Context(), Message{ID: "x", To: "b", Text: "hello"}); id != "x" || err != nil {
			t.Errorf("%s %q: with the status as receipt: %q, %v", c.kind, c.body, id, err)
		}
		if err := client.Nudge(t.Context(), "b", "", ""); err != nil {
			t.Errorf("%s %q: nudge: %v", c.kind, c.body, err)
		}
	}
	for code, kind := range map[int]string{200: "text/html", 500: "application/json", 404: "application/json"} {
		client := serve(t, answerWith(code, kind, `{"id":"other"}<p>`))
		client.StatusIsReceipt = true
		if _, err := client.Send(t.Context(), Message{ID: "x", To: "b", Text: "hello"}); err == nil || errors.Is(err, ErrNotTaken) {
			t.Errorf("%d %s: with the status as receipt: %v", code, kind, err)
		}
	}
	// A message without an id gets one, so that the response can repeat it.
	id, err := serve(t, NewServer(Options{Open: true})).Send(t.Context(), Message{To: "b", Text: "hello"})
	if err != nil || id == "" {
		t.Errorf("%q, %v", id, err)
	}
}
