package state_test

import (
	"fmt"
	"testing"
	"time"

	"agentstateloop/internal/testkit/statetest"
	"agentstateloop/state"
)

// TestRateOfAFlood sends 200 mails at once and polls each minute: in each hour 60
// run, in their order, and the operator is told once.
func TestRateOfAFlood(t *testing.T) {
	policy := statetest.Policy()
	policy.Rate = 60
	start := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	var mails []state.Event
	for i := range 200 {
		mails = append(mails, state.Arrived{Message: state.Message{
			Key: fmt.Sprint("m", i), Source: state.Mail, From: policy.Operator, Operator: true, At: start,
		}})
	}
	s := state.Step(state.New("goulard3120", "seed"), mails, policy, start)
	ran, notices := map[int]int{}, 0
	for now := start; now.Before(start.Add(5 * time.Hour)); now = now.Add(time.Minute) {
		s = state.Step(s, []state.Event{state.Polled{}}, policy, now)
		for s.CanRun(policy, now) {
			s = state.Step(s, []state.Event{state.Claimed{}}, policy, now)
			if want := fmt.Sprint("m", len(mails)-len(s.Inbox)); s.Turn.Key != want {
				t.Fatalf("at %v %s runs, want %s", now, s.Turn.Key, want)
			}
			s = state.Step(s, []state.Event{state.Ended{TurnID: s.Turn.TurnID, Epoch: s.Turn.Epoch, Outcome: state.Success}}, policy, now)
			ran[int(now.Sub(start)/time.Hour)]++
		}
	}
	for _, e := range s.Outbox {
		if e.Kind == state.Notice {
			notices++
		}
	}
	if ran[0] != 60 || ran[1] != 60 || ran[2] != 60 || ran[3] != 20 {
		t.Errorf("mails that ran, by hour: %v", ran)
	}
	if notices != 1 {
		t.Errorf("%d notices", notices)
	}
}
