package state_test

import (
	"reflect"
	"testing"
	"time"

	"agentstateloop/internal/testkit/statetest"
	"agentstateloop/state"
)

// tellPrompts plays lines, and returns the story and all history lines.
func tellPrompts(t *testing.T, lines ...string) (*statetest.Story, []state.Line) {
	t.Helper()
	st := statetest.New()
	var history []state.Line
	for _, line := range lines {
		if err := st.Play(line); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		history = append(history, st.S.Lines...)
	}
	return st, history
}

// TestPromptsAreReplayed rebuilds a state from its history alone: it knows when each
// prompt is next, and what came of its times.
func TestPromptsAreReplayed(t *testing.T) {
	st, history := tellPrompts(t, "policy prompts=morning@08:00+check@09:00", "07:00 poll", "08:00 poll; prompted morning",
		`09:00 poll; prompted check failed "its file is missing"`, "10:00 poll")
	got := state.Rebuild(state.New("goulard3120", "seed"), history)
	if !reflect.DeepEqual(got.Prompts, st.S.Prompts) {
		t.Errorf("rebuilt %+v, want %+v", got.Prompts, st.S.Prompts)
	}
	after := state.Step(got, []state.Event{state.Prompted{Name: "morning", At: st.Now.Add(-2 * time.Hour)}, state.Polled{}}, st.P, st.Now)
	if len(after.Inbox) != 1 {
		t.Errorf("the inbox: %+v", after.Inbox)
	}
}

// TestPromptsDoNotEndASuspension checks that a suspended turn stays suspended when a prompt is
// due. Only the operator's own message ends it.
func TestPromptsDoNotEndASuspension(t *testing.T) {
	st, _ := tellPrompts(t, "policy prompts=morning@08:00", "07:50 mail m1; poll", "07:50:01 claim", "07:50:01 start", "07:50:02 ask dorlange3120 for=2h \"well?\"", "07:50:03 suspend",
		"08:00 poll; prompted morning", "08:01 poll")
	if len(st.S.Inbox) != 2 || st.S.Turn.Status != state.HeadSuspended || st.S.Turn.Waiting[0].Answered() {
		t.Errorf("the turn: %+v, the inbox: %+v", st.S.Turn, st.S.Inbox)
	}
	if st.S.Due(st.P, st.Now) == "inbox" {
		t.Error("a poll is due for a prompt that has to wait")
	}
}

// TestPromptDueDuringFiring checks that a time that comes while the firing before it is made has
// its own firing: the next time follows that of the firing, and not the present.
func TestPromptDueDuringFiring(t *testing.T) {
	at := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	p := state.Policy{Turns: true, Prompts: []state.PromptPolicy{{Name: "often", At: "* * * * *", CatchUp: time.Hour, Next: func(after time.Time, _ *time.Location) time.Time {
		return after.Truncate(time.Minute).Add(time.Minute)
	}}}}
	s := state.Step(state.New("goulard3120", "seed"), []state.Event{state.Polled{}}, p, at.Add(-time.Second))
	s = state.Step(s, []state.Event{state.Prompted{Name: "often", At: at}}, p, at.Add(90*time.Second))
	want := state.Firing{Name: "often", At: at.Add(time.Minute)}
	if due := s.DuePrompts(p, at.Add(90*time.Second)); len(due) != 1 || due[0] != want {
		t.Errorf("due: %+v, want %+v", due, want)
	}
}
