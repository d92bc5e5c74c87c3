package state_test

import (
	"reflect"
	"testing"
	"time"

	"agentstateloop/internal/testkit/statetest"
	"agentstateloop/state"
)

// WithTimesOf takes these fields and no other: what a power loss may take back.
func TestWithTimesOf(t *testing.T) {
	var other state.State
	fill(reflect.ValueOf(&other).Elem())
	want := state.State{Serial: other.Serial, LastStep: other.LastStep, NextDue: other.NextDue, LastMailRead: other.LastMailRead}
	want.Cursor.Complete = other.Cursor.Complete
	statetest.SameState(t, state.State{}.WithTimesOf(other), want)
	want = other
	want.Serial, want.LastStep, want.NextDue, want.LastMailRead, want.Cursor.Complete = 0, time.Time{}, time.Time{}, time.Time{}, time.Time{}
	statetest.SameState(t, other.WithTimesOf(state.State{}), want)
}

// A poll that finds nothing changes only what WithTimesOf takes, whatever waits.
func TestAnEmptyPollChangesTimes(t *testing.T) {
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
