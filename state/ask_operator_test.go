package state_test

import (
	"testing"
	"time"

	"agentstateloop/state"
)

// TestReplayOfAnAnswer replays the lines of an answer: the operator was heard by it.
func TestReplayOfAnAnswer(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)
	policy := state.Policy{Operator: "op@example.com", HasMail: true, Turns: true}
	s := state.New("goulard3120", "seed")
	step := func(events ...state.Event) {
		now = now.Add(time.Second)
		s = state.Step(s, events, policy, now)
	}
	step(state.Arrived{Message: state.Message{Key: "m1", Source: state.Mail, From: "op@example.com", Operator: true, At: now, Payload: "messages/m1"}})
	step(state.Claimed{})
	step(state.Started{TurnID: s.Turn.TurnID, Epoch: s.Turn.Epoch})
	step(state.Asked{TurnID: s.Turn.TurnID, Epoch: s.Turn.Epoch, Question: state.Effect{Kind: state.OperatorQuestion, To: "op@example.com", Text: "May I?"}, Patience: time.Hour})
	step(state.Suspended{TurnID: s.Turn.TurnID, Epoch: s.Turn.Epoch, Box: "turns/t/1/output"})
	before := s
	answer := state.Message{Key: "m2", Source: state.Mail, From: "op@example.com", Operator: true, At: now, Payload: "messages/m2"}
	step(state.Replied{Arrived: state.Arrived{Message: answer}, Question: s.Turn.Waiting[0].ID})
	replayed := state.Replay(before, s.Lines)
	if !replayed.LastOperator.Equal(s.LastOperator) || replayed.LastMail.Key != "m2" || !replayed.Turn.Waiting[0].Answered() {
		t.Errorf("replayed: heard %s, mail %+v, %+v; want %s", replayed.LastOperator, replayed.LastMail, replayed.Turn.Waiting, s.LastOperator)
	}
}

// TestChainOfAnAnswerToADeadTurn checks that the answer to a question belongs to the chain of
// the message whose turn has asked, while that turn is dead.
func TestChainOfAnAnswerToADeadTurn(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)
	policy := state.Policy{Operator: "op@example.com", HasMail: true, Turns: true}
	s := state.New("goulard3120", "seed")
	step := func(events ...state.Event) {
		now = now.Add(time.Second)
		s = state.Step(s, events, policy, now)
	}
	step(state.Arrived{Message: state.Message{Key: "m1", Source: state.Mail, From: "op@example.com", Operator: true, At: now, Payload: "messages/m1"}})
	step(state.Claimed{})
	step(state.Started{TurnID: s.Turn.TurnID, Epoch: s.Turn.Epoch})
	step(state.Asked{TurnID: s.Turn.TurnID, Epoch: s.Turn.Epoch, Question: state.Effect{Kind: state.OperatorQuestion, To: "op@example.com", Text: "May I?"}, Patience: time.Hour})
	step(state.Reaped{TurnID: s.Turn.TurnID, Epoch: s.Turn.Epoch, Reason: "its runner died"})
	row, _ := s.Message("m1")
	answer := state.Message{Key: "m2", Source: state.Mail, From: "op@example.com", Operator: true, At: now, Payload: "messages/m2"}
	step(state.Replied{Arrived: state.Arrived{Message: answer}, Question: s.Expected[0].ID})
	edges := 0
	for _, l := range s.Lines {
		if l.Kind != state.LineEdge {
			continue
		}
		edges++
		if l.Trace != row.Trace || row.Trace == "" {
			t.Errorf("%+v belongs to the chain %q, want %q", l, l.Trace, row.Trace)
		}
	}
	if edges != 3 {
		t.Errorf("%d edges", edges)
	}
}

// TestAnswerOverADeadline checks which answers count in a step after the deadline of their
// question: a mail that came before it, but not what is said at the terminal now.
func TestAnswerOverADeadline(t *testing.T) {
	for source, want := range map[state.Source]string{state.Mail: "messages/m2", state.CLI: ""} {
		now := time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)
		policy := state.Policy{Operator: "op@example.com", HasMail: true, Turns: true}
		s := state.New("goulard3120", "seed")
		step := func(events ...state.Event) {
			now = now.Add(time.Second)
			s = state.Step(s, events, policy, now)
		}
		step(state.Arrived{Message: state.Message{Key: "m1", Source: state.Mail, From: "op@example.com", Operator: true, At: now, Payload: "messages/m1"}})
		step(state.Claimed{})
		step(state.Started{TurnID: s.Turn.TurnID, Epoch: s.Turn.Epoch})
		step(state.Asked{TurnID: s.Turn.TurnID, Epoch: s.Turn.Epoch, Question: state.Effect{Kind: state.OperatorQuestion, To: "op@example.com", Text: "May I?"}, Patience: time.Hour})
		step(state.Suspended{TurnID: s.Turn.TurnID, Epoch: s.Turn.Epoch, Box: "turns/t/1/output"})
		w := s.Turn.Waiting[0]
		now = w.By
		answer := state.Message{Key: "m2", Source: source, From: "op@example.com", Operator: true, At: w.By.Add(-time.Minute), Payload: "messages/m2"}
		step(state.Replied{Arrived: state.Arrived{Message: answer}, Question: w.ID, Only: true})
		if got := s.Turn.Waiting[0].Report; got != want {
			t.Errorf("%s: the answer is %q, want %q", source, got, want)
		}
	}
}
