package state_test

import (
	"encoding/json"
	"testing"
	"time"

	"agentstateloop/internal/testkit/statetest"
	"agentstateloop/state"
)

// In a state of an older version all questions have one deadline. Each keeps it.
func TestOldWaitsKeepTheirDeadline(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)
	var s state.State
	if err := json.Unmarshal([]byte(`{"version":1,"agent":"goulard3120","phase":"PREP","phase_since":"2026-03-02T09:20:00Z",
		"inbox":[{"key":"m1","source":"mail","from":"op@example.com","operator":true,"at":"2026-03-02T09:20:00Z","status":"processing","seq":1,"turn_id":"t1","epoch":1}],
		"turn":{"status":"suspended","turn_id":"t1","epoch":1,"key":"m1","resume_by":"2026-03-02T09:40:00Z","patience":600000000000,
		"waiting":[{"tool_call_id":"ask.1","to":"dorlange3120","asked":"2026-03-02T09:30:00Z"},{"tool_call_id":"ask.2","to":"ferrand3120","asked":"2026-03-02T09:29:00Z"}]}}`), &s); err != nil {
		t.Fatal(err)
	}
	s = state.Step(s, nil, statetest.Policy(), now)
	if at, ok := s.Turn.NextDeadline(); !ok || !at.Equal(now.Add(10*time.Minute)) {
		t.Errorf("the next deadline is %v, %v", at, ok)
	}
	old := s
	old.Turn.ResumeBy, old.Turn.Patience = now.Add(26*time.Hour), 10*time.Minute
	old.Turn.Waiting = []state.Wait{{ID: "ask.1", To: "dorlange3120"}}
	if at, _ := state.Step(old, nil, statetest.Policy(), now).Turn.NextDeadline(); !at.Equal(now.Add(10 * time.Minute)) {
		t.Errorf("after the clock was set back by a day, the deadline is %v", at)
	}
	s = state.Step(s, nil, statetest.Policy(), now.Add(10*time.Minute))
	for _, w := range s.Turn.Waiting {
		if w.Missed != "timeout" {
			t.Errorf("%s: %q", w.ID, w.Missed)
		}
	}
}

// asking is an agent in a turn that has asked the operator.
type asking struct {
	s   state.State
	now time.Time
}

func newAsking() *asking {
	a := &asking{s: state.New("goulard3120", "seed"), now: time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)}
	a.step(state.Arrived{Message: state.Message{Key: "m1", Source: state.Mail, From: "op@example.com", Operator: true, At: a.now, Payload: "messages/m1"}})
	a.step(state.Claimed{})
	a.step(state.Started{TurnID: a.s.Turn.TurnID, Epoch: a.s.Turn.Epoch})
	a.step(state.Asked{TurnID: a.s.Turn.TurnID, Epoch: a.s.Turn.Epoch, Question: state.Effect{Kind: state.OperatorQuestion, To: "op@example.com", Text: "May I?"}, Patience: time.Hour})
	return a
}

// step steps a second later.
func (a *asking) step(events ...state.Event) {
	a.now = a.now.Add(time.Second)
	a.s = state.Step(a.s, events, state.Policy{Operator: "op@example.com", HasMail: true, Turns: true}, a.now)
}

// TestReplayOfAnAnswer replays the lines of an answer: the operator was heard by it.
func TestReplayOfAnAnswer(t *testing.T) {
	a := newAsking()
	a.step(state.Suspended{TurnID: a.s.Turn.TurnID, Epoch: a.s.Turn.Epoch, Box: "turns/t/1/output"})
	before := a.s
	answer := state.Message{Key: "m2", Source: state.Mail, From: "op@example.com", Operator: true, At: a.now, Payload: "messages/m2"}
	a.step(state.Replied{Arrived: state.Arrived{Message: answer}, Question: a.s.Turn.Waiting[0].ID})
	replayed := state.Replay(before, a.s.Lines)
	if !replayed.LastOperator.Equal(a.s.LastOperator) || replayed.LastMail.Key != "m2" || !replayed.Turn.Waiting[0].Answered() {
		t.Errorf("replayed: heard %s, mail %+v, %+v; want %s", replayed.LastOperator, replayed.LastMail, replayed.Turn.Waiting, a.s.LastOperator)
	}
}

// TestChainOfAnAnswerToADeadTurn checks that the answer to a question belongs to the chain of
// the message whose turn has asked, while that turn is dead.
func TestChainOfAnAnswerToADeadTurn(t *testing.T) {
	a := newAsking()
	a.step(state.Reaped{TurnID: a.s.Turn.TurnID, Epoch: a.s.Turn.Epoch, Reason: "its runner died"})
	row, _ := a.s.Message("m1")
	answer := state.Message{Key: "m2", Source: state.Mail, From: "op@example.com", Operator: true, At: a.now, Payload: "messages/m2"}
	a.step(state.Replied{Arrived: state.Arrived{Message: answer}, Question: a.s.Expected[0].ID})
	edges := 0
	for _, l := range a.s.Lines {
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
		a := newAsking()
		a.step(state.Suspended{TurnID: a.s.Turn.TurnID, Epoch: a.s.Turn.Epoch, Box: "turns/t/1/output"})
		w := a.s.Turn.Waiting[0]
		a.now = w.By
		answer := state.Message{Key: "m2", Source: source, From: "op@example.com", Operator: true, At: w.By.Add(-time.Minute), Payload: "messages/m2"}
		a.step(state.Replied{Arrived: state.Arrived{Message: answer}, Question: w.ID, Only: true})
		if got := a.s.Turn.Waiting[0].Report; got != want {
			t.Errorf("%s: the answer is %q, want %q", source, got, want)
		}
	}
}
