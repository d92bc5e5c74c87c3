package state_test

import (
	"testing"
	"time"

	"agentstateloop/internal/testkit/statetest"
	"agentstateloop/state"
)

// TestTookSeatTriesAtOnce checks that a new holder does not wait for the end of a pause that another
// host began, by its own clock and because of its own network.
func TestTookSeatTriesAtOnce(t *testing.T) {
	now := time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)
	s := state.New("goulard3120", "seed")
	s.Outbox = []state.Effect{{ID: "reply.t1", Kind: state.Reply, Channel: state.ByMail, To: "operator@example.com", Created: now, NotBefore: now.Add(time.Hour)}}
	for _, host := range []string{"alpha", "beta"} {
		s = state.Step(s, []state.Event{state.TookSeat{Host: host, Term: 1}}, statetest.Policy(), now)
		if waits := s.Outbox[0].NotBefore.After(now); waits != (host == "alpha") {
			t.Errorf("%s: the row waits: %v", host, waits)
		}
	}
}
