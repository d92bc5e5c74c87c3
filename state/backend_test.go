package state_test

import (
	"testing"
	"time"

	"agentstateloop/internal/testkit/statetest"
	"agentstateloop/state"
)

// TestObstacleIsTriedByEveryPoll proves that the pause of an obstacle holds within a poll and
// ends with it, and that a limit is left alone until its time.
func TestObstacleIsTriedByEveryPoll(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	p := statetest.Policy()
	p.Turns = true
	for _, kind := range []state.OutageKind{state.Obstacle, state.UsageLimit, state.Overload} {
		failed := state.BackendFailed{Backend: p.BackendNames()[0], Kind: kind, Reason: "why"}
		s := state.Step(state.State{}, []state.Event{failed}, p, now)
		if _, ok := s.Backend(p, now); ok {
			t.Errorf("%s: tried again at once", kind)
		}
		s = state.Step(s, []state.Event{state.Polled{Again: true}}, p, now)
		if _, ok := s.Backend(p, now); ok {
			t.Errorf("%s: tried again in the same poll", kind)
		}
		s = state.Step(s, []state.Event{state.Polled{}}, p, now)
		if _, ok := s.Backend(p, now); ok != (kind == state.Obstacle) {
			t.Errorf("%s: the next poll tries again: %v", kind, ok)
		}
	}
}
