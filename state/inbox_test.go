package state_test

import (
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"agentstateloop/internal/testkit/statetest"
	"agentstateloop/state"
)

// TestFindMessage: a message is found in the inbox first, then in the history,
// with the status in which it left.
func TestFindMessage(t *testing.T) {
	key := func(k string) func(state.Message) bool {
		return func(m state.Message) bool { return m.Key == k }
	}
	row := func(k string) *state.Message { return &state.Message{Key: k, Status: state.Queued} }
	s := state.State{Received: state.Received{Inbox: []state.Message{{Key: "waits", TurnID: "t1", Status: state.Processing}}}, Work: state.Work{Turn: state.Head{Key: "waits"}}}
	history := func(fail error) iter.Seq2[state.Line, error] {
		return func(yield func(state.Line, error) bool) {
			for _, l := range []state.Line{
				{Kind: state.LineMessage, Key: "waits", Message: row("waits")},
				{Kind: state.LineMessage, Key: "done", Message: row("done")},
				{Kind: state.LineMessage, Key: "dropped", Message: row("dropped")},
				{Kind: state.LineTask, Key: "done"},
				{Kind: state.LineEnded, Key: "dropped", What: state.Word(state.Skipped)},
			} {
				if !yield(l, nil) {
					return
				}
			}
			if fail != nil {
				yield(state.Line{}, fail)
			}
		}
	}
	for k, want := range map[string]state.Status{"waits": state.Processing, "done": state.Consumed, "dropped": state.Skipped} {
		if m, ok, err := s.FindMessage(history(nil), key(k)); !ok || err != nil || m.Key != k || m.Status != want {
			t.Errorf("%s: %+v, %v, %v, want status %s", k, m, ok, err, want)
		}
	}
	if _, ok, err := s.FindMessage(history(nil), key("unknown")); ok || err != nil {
		t.Errorf("unknown: %v, %v", ok, err)
	}
	torn := errors.New("torn")
	if _, ok, err := s.FindMessage(history(torn), key("done")); ok || !errors.Is(err, torn) {
		t.Errorf("unreadable history: %v, %v", ok, err)
	}
	if m, ok := s.TurnMessage(); !ok || m.Key != "waits" {
		t.Errorf("TurnMessage: %+v, %v", m, ok)
	}
	if m, ok := s.MessageOfTurn("t1"); !ok || m.Key != "waits" {
		t.Errorf("MessageOfTurn: %+v, %v", m, ok)
	}
	if m, ok := (state.State{Received: state.Received{Inbox: []state.Message{{Key: "no turn yet"}}}}).MessageOfTurn(""); ok {
		t.Errorf("MessageOfTurn without a turn: %+v", m)
	}
}

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
