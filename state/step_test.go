package state

import (
	"fmt"
	"testing"
	"time"
)

// TestSeenIsCapped: what was accepted is remembered for two weeks, longer while
// the mailbox could not be read, and forgotten in the end, a hundred at a time.
func TestSeenIsCapped(t *testing.T) {
	start := time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)
	s := New("goulard3120", "seed")
	var events []Event
	for i := range 250 {
		events = append(events, Unreadable{Key: fmt.Sprint("k", i)})
	}
	look := func(at time.Time) []Event {
		return []Event{Looked{Source: Mail, Cursor: &Cursor{Mailbox: "box", Complete: at}}, Polled{}}
	}
	s = Step(s, append(events, look(start)...), testPolicy(), start)

	// The agent was off for a year: the mailbox may be read anew from the start.
	later := start.Add(365 * 24 * time.Hour)
	s = Step(s, look(later), testPolicy(), later)
	if len(s.Seen) != 250 {
		t.Errorf("%d keys after a year off, want all 250", len(s.Seen))
	}
	for _, want := range []int{150, 50, 0, 0} {
		again := Step(s, look(later), testPolicy(), later)
		s = Step(s, look(later), testPolicy(), later)
		sameState(t, s, again) // no two lives forget different keys
		if len(s.Seen) != want {
			t.Errorf("%d keys, want %d", len(s.Seen), want)
		}
	}
	// Young ones stay.
	s = Step(s, []Event{Unreadable{Key: "young"}}, testPolicy(), later)
	s = Step(s, look(later.Add(seenFor)), testPolicy(), later.Add(seenFor))
	s = Step(s, look(later.Add(seenFor)), testPolicy(), later.Add(seenFor))
	if _, ok := s.Seen["young"]; !ok {
		t.Error("forgotten at two weeks")
	}
}

// TestMintedIDs: an id is never given twice, not even by a state that was
// restored from an older copy.
func TestMintedIDs(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)
	seen := map[string]bool{}
	s := New("goulard3120", "seed")
	for i := range 50 {
		older := s
		for range 3 { // three lives from the same state, at other times
			now = now.Add(time.Second)
			s = Step(older, []Event{Unreadable{Key: fmt.Sprint(i)}}, testPolicy(), now)
			id := s.Outbox[len(s.Outbox)-1].ID
			if seen[id] {
				t.Fatalf("%s was given twice", id)
			}
			seen[id] = true
		}
	}
	other := Step(New("goulard3120", "another seed"), []Event{Unreadable{Key: "0"}}, testPolicy(), now)
	if seen[other.Outbox[0].ID] {
		t.Error("two agents gave the same id")
	}
}

// TestRefusalsAreCapped: whoever sends what the gate refuses, however much of it,
// does not make the state grow.
func TestRefusalsAreCapped(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)
	s := New("goulard3120", "seed")
	for poll := range 20 {
		var events []Event
		for i := range 200 {
			events = append(events, Refused{Key: fmt.Sprint("k", poll, ".", i), Source: Mail, At: now})
		}
		now = now.Add(time.Minute)
		s = Step(s, append(events, Polled{}), testPolicy(), now)
	}
	s = Step(s, []Event{Polled{}}, testPolicy(), now)
	if len(s.Seen) != mostRejections || s.Quarantined != 4000 {
		t.Errorf("%d keys are remembered of %d refusals, want %d", len(s.Seen), s.Quarantined, mostRejections)
	}
	if !s.KnowsRefused("k19.199", "") || s.KnowsRefused("k0.0", "") {
		t.Error("the youngest are not the ones that are remembered")
	}
}
