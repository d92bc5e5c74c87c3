package state_test

import (
	"fmt"
	"testing"
	"time"

	"agentstateloop/state"
	"agentstateloop/state/statetest"
)

// TestMintedIDs checks that an id is never minted twice, not even by a state that
// was restored from an older copy.
func TestMintedIDs(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)
	seen := map[string]bool{}
	s := state.New("goulard3120", "seed")
	for i := range 50 {
		older := s
		for range 3 { // three lives from the same state, at other times
			now = now.Add(time.Second)
			s = state.Step(older, []state.Event{state.Recovered{Reason: fmt.Sprint(i)}}, statetest.Policy(), now)
			id := s.Outbox[len(s.Outbox)-1].ID
			if seen[id] {
				t.Fatalf("%s was minted twice", id)
			}
			seen[id] = true
		}
	}
	other := state.Step(state.New("goulard3120", "another seed"), []state.Event{state.Recovered{Reason: "0"}}, statetest.Policy(), now)
	if seen[other.Outbox[0].ID] {
		t.Error("two agents minted the same id")
	}
}
