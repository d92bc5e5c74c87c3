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
