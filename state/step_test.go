package state_test

import (
	"fmt"
	"testing"
	"time"

	"agentstateloop/state"
	"agentstateloop/state/statetest"
)

// TestSeenIsCapped: what was accepted is remembered for two weeks, longer while
// the mailbox could not be read, and forgotten in the end, a hundred at a time.
func TestSeenIsCapped(t *testing.T) {
	start := time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)
	s := state.New("goulard3120", "seed")
	var events []state.Event
	for i := range 250 {
		events = append(events, state.Unreadable{Key: fmt.Sprint("k", i)})
	}
	look := func(at time.Time) []state.Event {
		return []state.Event{state.SourceRead{Source: state.Mail, Cursor: &state.Cursor{Mailbox: "box", Complete: at}}, state.Polled{}}
	}
	s = state.Step(s, append(events, look(start)...), statetest.Policy(), start)

	// The agent was off for a year: the mailbox may be read anew from the start.
	later := start.Add(365 * 24 * time.Hour)
	s = state.Step(s, look(later), statetest.Policy(), later)
	if len(s.Seen) != 250 {
		t.Errorf("%d keys after a year off, want all 250", len(s.Seen))
	}
	for _, want := range []int{150, 50, 0, 0} {
		again := state.Step(s, look(later), statetest.Policy(), later)
		s = state.Step(s, look(later), statetest.Policy(), later)
		statetest.SameState(t, s, again) // no two lives forget different keys
		if len(s.Seen) != want {
			t.Errorf("%d keys, want %d", len(s.Seen), want)
		}
	}
	// Young ones stay.
	s = state.Step(s, []state.Event{state.Unreadable{Key: "young"}}, statetest.Policy(), later)
	s = state.Step(s, look(later.Add(state.SeenFor)), statetest.Policy(), later.Add(state.SeenFor))
	s = state.Step(s, look(later.Add(state.SeenFor)), statetest.Policy(), later.Add(state.SeenFor))
	if _, ok := s.Seen["young"]; !ok {
		t.Error("forgotten at two weeks")
	}
}

// TestMintedIDs: an id is never given twice, not even by a state that was
// restored from an older copy.
func TestMintedIDs(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)
	seen := map[string]bool{}
	s := state.New("goulard3120", "seed")
	for i := range 50 {
		older := s
		for range 3 { // three lives from the same state, at other times
			now = now.Add(time.Second)
			s = state.Step(older, []state.Event{state.Unreadable{Key: fmt.Sprint(i)}}, statetest.Policy(), now)
			id := s.Outbox[len(s.Outbox)-1].ID
			if seen[id] {
				t.Fatalf("%s was given twice", id)
			}
			seen[id] = true
		}
	}
	other := state.Step(state.New("goulard3120", "another seed"), []state.Event{state.Unreadable{Key: "0"}}, statetest.Policy(), now)
	if seen[other.Outbox[0].ID] {
		t.Error("two agents gave the same id")
	}
}

// TestRefusalsAreCapped: whoever sends what the gate refuses, however much of it,
// does not make the state grow.
func TestRefusalsAreCapped(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)
	s := state.New("goulard3120", "seed")
	for poll := range 20 {
		var events []state.Event
		for i := range 200 {
			events = append(events, state.Rejected{Key: fmt.Sprint("k", poll, ".", i), Source: state.Mail, At: now})
		}
		now = now.Add(time.Minute)
		s = state.Step(s, append(events, state.Polled{}), statetest.Policy(), now)
	}
	s = state.Step(s, []state.Event{state.Polled{}}, statetest.Policy(), now)
	if len(s.Seen) != state.MostRejections || s.Quarantined != 4000 {
		t.Errorf("%d keys are remembered of %d refusals, want %d", len(s.Seen), s.Quarantined, state.MostRejections)
	}
	if !s.KnowsRejected("k19.199", "") || s.KnowsRejected("k0.0", "") {
		t.Error("the youngest are not the ones that are remembered")
	}
}
