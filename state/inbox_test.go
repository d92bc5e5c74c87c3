package state_test

import (
	"errors"
	"iter"
	"testing"

	"agentstateloop/state"
)

// TestFindMessage: a message is found in the inbox first, then in the history,
// with the status in which it left.
func TestFindMessage(t *testing.T) {
	key := func(k string) func(state.Message) bool {
		return func(m state.Message) bool { return m.Key == k }
	}
	row := func(k string) *state.Message { return &state.Message{Key: k, Status: state.Queued} }
	s := state.State{Inbox: []state.Message{{Key: "waits", TurnID: "t1", Status: state.Processing}}, Turn: state.Head{Key: "waits"}}
	history := func(fail error) iter.Seq2[state.Line, error] {
		return func(yield func(state.Line, error) bool) {
			for _, l := range []state.Line{
				{Kind: state.LineMessage, Key: "waits", Message: row("waits")},
				{Kind: state.LineMessage, Key: "done", Message: row("done")},
				{Kind: state.LineMessage, Key: "dropped", Message: row("dropped")},
				{Kind: state.LineTask, Key: "done"},
				{Kind: state.LineEnded, Key: "dropped", What: string(state.Skipped)},
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
	if m, ok := (state.State{Inbox: []state.Message{{Key: "no turn yet"}}}).MessageOfTurn(""); ok {
		t.Errorf("MessageOfTurn without a turn: %+v", m)
	}
}
