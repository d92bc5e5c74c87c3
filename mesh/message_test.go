package mesh

import (
	"bytes"
	"encoding/json"
	"runtime"
	"strings"
	"testing"
)

func TestMessageKey(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for _, tt := range []struct{ from, id, want string }{
		{"dorlange3120", "reply.T-1_a", "mesh:dorlange3120:reply.T-1_a"},
		{"a:b", "c", "mesh:a%3Ab:c"},
		{"a", "b:c", "mesh:a:b%3Ac"},
		{"a/../b", "\x00\n", "mesh:a%2F..%2Fb:%00%0A"},
		{"~", "%41", "mesh:%7E:%2541"},
		{"é", "A", "mesh:%C3%A9:A"},
	} {
		if got := (Message{From: tt.from, ID: tt.id}).Key(); got != tt.want {
			t.Errorf("%q %q: got %s, want %s", tt.from, tt.id, got, tt.want)
		}
	}
	different := map[string]Message{}
	for _, m := range []Message{
		{}, {Text: "a"}, {Text: "b"}, {From: "a"}, {From: long, ID: "a"}, {From: long + "x", ID: "a"}, {From: "a", ID: long},
		{ID: digest([]byte(long))}, {ID: long},
	} {
		key := m.Key()
		if other, ok := different[key]; ok {
			t.Errorf("one key for %.40v and %.40v", m, other)
		}
		different[key] = m
	}
}

func FuzzKey(f *testing.F) {
	f.Add("a", "b", "a:b", "")
	f.Add("~", "%", "\xff", "/")
	f.Fuzz(func(t *testing.T, from1, id1, from2, id2 string) {
		one, two := Message{From: from1, ID: id1}.Key(), Message{From: from2, ID: id2}.Key()
		if (one == two) != (from1 == from2 && id1 == id2) {
			t.Errorf("%q and %q", one, two)
		}
		if len(one) > 198 || strings.ContainsFunc(one, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' }) {
			t.Errorf("unsafe key %q", one)
		}
	})
}

func FuzzMailbox(f *testing.F) {
	f.Add([]byte(`{"halted":true,"messages":[{"id":"1","from":"b","hops":["c"],"sent_at":"2026-03-01T10:00:00Z"}]}`))
	f.Add([]byte(`{"messages":null}`))
	f.Add([]byte(`{"messages":{}}`))
	f.Add([]byte(`{"messages":[1,{"id":7},{"id":"a","ID":"b"},null,{"x":[{]}}]}`))
	f.Add([]byte(`{"messages":[{"id":"a\"}]","from":"\\"},[[[]]],"\u0000"]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var mailbox Mailbox
		if mailbox.UnmarshalJSON(data) != nil {
			return
		}
		if len(mailbox.Messages)+len(mailbox.Undecoded) > 2*MaxMessages {
			t.Errorf("%d messages, %d others", len(mailbox.Messages), len(mailbox.Undecoded))
		}
		var whole struct {
			Messages []json.RawMessage `json:"messages"`
		}
		if json.Unmarshal(data, &whole) == nil && len(whole.Messages) > 0 && mailbox.Empty() {
			t.Errorf("nothing of %q was read", data)
		}
		for _, u := range mailbox.Undecoded {
			if u.Reason == "" || !bytes.Contains(data, u.Raw) || u.ID != "" && !(Message{ID: u.ID}).CanAck() {
				t.Errorf("%+v", u)
			}
		}
		for _, m := range mailbox.Messages {
			if m.Kind == "" || m.Key() == "" {
				t.Errorf("%+v", m)
			}
		}
	})
}

// TestMailboxBound checks that a mailbox of too many tiny messages costs little. A message without an
// id can never be acknowledged, so it is returned once and does not block other messages.
func TestMailboxBound(t *testing.T) {
	list := func(item string, n int) string {
		return `{"messages":[` + strings.Repeat(item+",", n) + `{"id":"last"}]}`
	}
	for _, tt := range []struct {
		item    string
		n, want int
	}{{"{}", 0, 1}, {"{}", 200, 2}, {"{}", 1 << 20, 2}, {"[]", 1 << 20, 1}, {`{"id":"1"}`, 199, 200}, {`{"id":"1"}`, 300, 200}} {
		c := serve(t, answerWith(200, "application/json", list(tt.item, tt.n)))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		mailbox, err := c.Mailbox(t.Context(), 0)
		runtime.ReadMemStats(&after)
		if err != nil || len(mailbox.Messages) != tt.want {
			t.Errorf("%d of %s: got %d, %v", tt.n, tt.item, len(mailbox.Messages), err)
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 64<<20 {
			t.Errorf("%d messages took %d MiB", tt.n, grown>>20)
		}
	}
}

func TestMailboxToleratesUnknownMembers(t *testing.T) {
	c := serve(t, answerWith(200, "application/json; charset=utf-8", `{"future":{"a":[1]},"halted":true,"messages":[
		{"id":"1","from":"b\u0000/../c","message":"\ud800","new":1e999},
		{"id":null,"hops":null,"sent_at":"2026-03-01T10:00:00Z"}]}`))
	mailbox, err := c.Mailbox(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if !mailbox.Halted || len(mailbox.Messages) != 2 {
		t.Fatalf("got %+v", mailbox)
	}
	if m := mailbox.Messages[0]; m.Kind != KindMessage || m.Proven || m.Text != "\uFFFD" {
		t.Errorf("first: %+v", m)
	}
	if err := c.Ack(t.Context(), mailbox.Messages[1].ID); err != nil {
		t.Errorf("acknowledge without an id: %v", err)
	}
}
