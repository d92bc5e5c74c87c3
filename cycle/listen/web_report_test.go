package listen_test

import (
	"strings"
	"testing"

	"agentstateloop/cycle"
)

// A service reports through the webhook on outside work of a turn, once.
func TestWebReport(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.agent.Turn = nil // the test is the agent
	_, err := h.agent.Tell(t.Context(), "op", "deploy")
	check(t, err)
	next, err := h.agent.Next(t.Context())
	check(t, err)
	id, err := h.agent.Suspend(t.Context(), cycle.Inside{TurnID: next.TurnID, Epoch: next.Epoch}, "deploying", 1<<40)
	check(t, err)
	h.listen()
	authorized := []string{"Authorization", bearer}
	for _, c := range []struct {
		name, path, body string
		header           []string
		want             int
	}{
		{"no token", "/report/" + id, "{}", nil, 401},
		{"an unknown id", "/report/wait.0123", "{}", authorized, 404},
		{"another agent", "/report/nobody/" + id, "{}", authorized, 404},
		{"no status", "/report/" + id, `{"status": "great"}`, authorized, 400},
		{"no object", "/report/" + id, `[]`, authorized, 400},
		{"Latin-1", "/report/" + id, "{\"message\": \"gr\xfcn\"}", authorized, 400},
		{"too long", "/report/" + id, `{"message": "` + strings.Repeat("x", 1<<17) + `"}`, authorized, 413},
		{"the report", "/report/" + handle + "/" + id, `{"status": "failed", "fields": {"tests": 3}, "message": "red"}`, authorized, 202},
		{"once more", "/report/" + id, `{"status": "success"}`, authorized, 200},
	} {
		if got := h.call("POST", c.path, c.body, c.header...); got != c.want {
			t.Errorf("%s: answered %d, want %d", c.name, got, c.want)
		}
	}
	s, err := h.agent.Store.Read()
	check(t, err)
	if w := s.Turn.Waiting; len(w) != 1 || w[0].Status != "failed" {
		t.Errorf("%+v", w)
	}
}
