package listen_test

import (
	"strings"
	"testing"

	"agentstateloop/state"
)

// A message of a program is in the inbox when the webhook answers. It is bounded, and
// needs the token.
func TestWebMessage(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.agent.Policy.Turns = false
	h.listen()
	for _, c := range []struct {
		name, path, body string
		header           []string
		want             int
	}{
		{"no token", "/message", `{"text": "x"}`, nil, 401},
		{"a foreign Host", "/message", `{"text": "x"}`, []string{"Authorization", bearer, "Host", "evil.example"}, 403},
		{"no text", "/message", `{"from": "ci"}`, []string{"Authorization", bearer}, 400},
		{"no body", "/message", "", []string{"Authorization", bearer}, 400},
		{"garbage", "/message", "{[", []string{"Authorization", bearer}, 400},
		{"another object after it", "/message", `{"text": "x"} {"text": "y"}`, []string{"Authorization", bearer}, 400},
		{"Latin-1", "/message", "{\"text\": \"gr\xfcn\"}", []string{"Authorization", bearer}, 400},
		{"a long text", "/message", `{"text": "` + strings.Repeat("x", 64<<10+1) + `"}`, []string{"Authorization", bearer}, 400},
		{"a long body", "/message", `{"text": "` + strings.Repeat("x", 1<<20) + `"}`, []string{"Authorization", bearer}, 413},
		{"an unknown handle", "/message/nobody", `{"text": "x"}`, []string{"Authorization", bearer}, 404},
		{"a text", "/message", `{"from": "ci/main\nx", "subject": "red", "text": "the build is red"}`, []string{"Authorization", bearer}, 202},
		{"a message", "/message/" + handle, `{"message": "another", "body": "not this"}`, []string{"Authorization", bearer}, 202},
		{"a text and a message", "/message", `{"text": "the text", "message": "not this"}`, []string{"Authorization", bearer}, 202},
		{"a body", "/message/" + handle, `{"body": "and one more"}`, []string{"Authorization", bearer}, 202},
	} {
		if got := h.call("POST", c.path, c.body, c.header...); got != c.want {
			t.Errorf("%s: answered %d, want %d", c.name, got, c.want)
		}
	}
	s, err := h.agent.Store.Read()
	check(t, err)
	var got []string
	for _, m := range s.Inbox {
		if m.Source != state.EventSource || m.Operator || m.Cause() != state.CauseEvent {
			t.Errorf("%+v", m)
		}
		got = append(got, m.From+": "+m.Title)
	}
	if want := "ci-main-x: red, webhook: another, webhook: the text, webhook: and one more"; strings.Join(got, ", ") != want {
		t.Errorf("the inbox has %q", got)
	}
}
