package listen_test

import (
	"net/http"
	"strings"
	"testing"

	"agentstateloop/cycle/listen"
	"agentstateloop/mesh"
)

func TestWebRefuses(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.listen()
	long := strings.Repeat("x", 1<<20)
	for _, c := range []struct {
		name, method, path, body string
		header                   []string
		want                     int
	}{
		{"no token", "POST", "/nudge", "", nil, 401},
		{"a wrong token", "POST", "/nudge", "", []string{"Authorization", "Bearer nope"}, 401},
		{"another scheme", "POST", "/nudge", "", []string{"Authorization", "Basic " + token}, 401},
		{"a foreign Host", "POST", "/nudge", "", []string{"Authorization", bearer, "Host", "evil.example"}, 403},
		{"an Origin", "POST", "/nudge", "", []string{"Authorization", bearer, "Origin", "https://evil.example"}, 403},
		{"a long body", "POST", "/nudge", `{"reason": "` + long + `"}`, []string{"Authorization", bearer}, 413},
		{"garbage", "POST", "/nudge", "{[", []string{"Authorization", bearer}, 400},
		{"an unknown handle", "POST", "/nudge/nobody", "", []string{"Authorization", bearer}, 404},
		{"dots", "POST", "/nudge/..%2f..%2fetc", "", []string{"Authorization", bearer}, 404},
		{"GET", "GET", "/nudge", "", []string{"Authorization", bearer}, 405},
		{"another path", "POST", "/", "", []string{"Authorization", bearer}, 404},
		{"a guessed wake address", "POST", mesh.WakePath(handle, "secret"), "", nil, 404},
	} {
		if got := h.call(c.method, c.path, c.body, c.header...); got != c.want {
			t.Errorf("%s: answered %d, want %d", c.name, got, c.want)
		}
	}
	if n := h.nudged(); n != 0 {
		t.Errorf("%d nudges were accepted", n)
	}
}

func TestWebWithoutToken(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.listen(func(l *listen.Listener) { l.Token = nil })
	if got := h.call("POST", "/nudge", ""); got != http.StatusForbidden {
		t.Errorf("answered %d", got)
	}
}

// The wake address is registered and answers. The list of agents does not show it.
func TestWakeAddress(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.listen()
	wake := <-h.mesh.wakes
	path, ok := strings.CutPrefix(wake, h.web)
	if !ok {
		t.Fatalf("the wake address is %q", wake)
	}
	if got := h.call("POST", path, `{"from": "dorlange3120"}`); got != http.StatusAccepted {
		t.Errorf("answered %d", got)
	}
	all, err := h.peer.Online(t.Context())
	check(t, err)
	if len(all) != 1 || all[0].Handle != handle || all[0].Wake != "" {
		t.Errorf("online: %+v", all)
	}
}
