package state_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"agentstateloop/internal/testkit/statetest"
	"agentstateloop/state"
)

// WithTimesOf takes these fields, which a power loss may take back, and no other.
func TestWithTimesOf(t *testing.T) {
	var other state.State
	fill(reflect.ValueOf(&other).Elem())
	want := state.State{Identity: state.Identity{Serial: other.Serial}, Timers: state.Timers{LastStep: other.LastStep, NextDue: other.NextDue, LastMailRead: other.LastMailRead}}
	want.Cursor.Complete = other.Cursor.Complete
	statetest.SameState(t, state.State{}.WithTimesOf(other), want)
	want = other
	want.Serial, want.LastStep, want.NextDue, want.LastMailRead, want.Cursor.Complete = 0, time.Time{}, time.Time{}, time.Time{}, time.Time{}
	statetest.SameState(t, other.WithTimesOf(state.State{}), want)
}

// A poll that finds nothing changes only the fields that WithTimesOf takes, even if rows wait.
func TestEmptyPollChangesOnlyTimes(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)
	poll := func(s state.State, more ...state.Event) state.State {
		now = now.Add(time.Minute)
		cursor := s.Cursor.Clone()
		cursor.Mailbox, cursor.Validity, cursor.Next, cursor.Complete = "box", 7, 42, now
		events := []state.Event{state.SourceRead{Source: state.Mail, Cursor: &cursor}, state.SourceRead{Source: state.Mesh}, state.NudgeFiles{}}
		return state.Step(s, append(append(events, more...), state.Polled{}), statetest.Policy(), now)
	}
	s := state.New("goulard3120", "seed")
	for range 2 {
		s = poll(s)
	}
	for range 3 {
		next := poll(s)
		statetest.SameState(t, s.WithTimesOf(next), next)
		s = next
	}
	s = poll(s, state.Arrived{Message: state.Message{Key: "cli:1", Source: state.CLI, From: "me", Operator: true}})
	s.Lines = nil
	next := poll(s)
	next.Lines = nil
	statetest.SameState(t, s.WithTimesOf(next), next)
}

// TestSeenIsCapped checks that keys are remembered for two weeks, and longer while the mailbox
// could not be read, and are then forgotten a hundred at a time.
func TestSeenIsCapped(t *testing.T) {
	start := time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)
	s := state.New("goulard3120", "seed")
	var events []state.Event
	for i := range 250 {
		events = append(events, state.Noted{Key: fmt.Sprint("k", i)})
	}
	look := func(at time.Time) []state.Event {
		return []state.Event{state.SourceRead{Source: state.Mail, Cursor: &state.Cursor{Mailbox: "box", Complete: at}}, state.Polled{}}
	}
	s = state.Step(s, append(events, look(start)...), statetest.Policy(), start)

	// The agent was off for a year: the mailbox may be read again from the start.
	later := start.Add(365 * 24 * time.Hour)
	s = state.Step(s, look(later), statetest.Policy(), later)
	if len(s.Seen) != 250 {
		t.Errorf("%d keys after a year off, want all 250", len(s.Seen))
	}
	for _, want := range []int{150, 50, 0, 0} {
		again := state.Step(s, look(later), statetest.Policy(), later)
		s = state.Step(s, look(later), statetest.Policy(), later)
		statetest.SameState(t, s, again) // the same step forgets the same keys
		if len(s.Seen) != want {
			t.Errorf("%d keys, want %d", len(s.Seen), want)
		}
	}
	// Young ones stay.
	s = state.Step(s, []state.Event{state.Noted{Key: "young"}}, statetest.Policy(), later)
	s = state.Step(s, look(later.Add(state.SeenFor)), statetest.Policy(), later.Add(state.SeenFor))
	s = state.Step(s, look(later.Add(state.SeenFor)), statetest.Policy(), later.Add(state.SeenFor))
	if _, ok := s.Seen["young"]; !ok {
		t.Error("forgotten at two weeks")
	}
}

// TestRefusalsAreCapped checks that items which the gate rejects, however many, do
// not make the state grow.
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
	if len(s.Seen) != state.MaxRejections || s.Quarantined != 4000 {
		t.Errorf("%d keys are remembered of %d refusals, want %d", len(s.Seen), s.Quarantined, state.MaxRejections)
	}
	if !s.KnowsRejected("k19.199", "") || s.KnowsRejected("k0.0", "") {
		t.Error("the youngest are not the ones that are remembered")
	}
}
