package commands

import (
	"context"
	"testing"
	"time"

	"agentstateloop/state"
	"agentstateloop/state/store"
)

// TestHistoryFollow checks that the asked number of newest lines is printed first, and then each
// new line once, until the context ends.
func TestHistoryFollow(t *testing.T) {
	st := &store.Store{Dir: t.TempDir(), Agent: "a"}
	now := time.Date(2026, time.January, 5, 12, 0, 0, 0, time.UTC)
	order := func(to state.Phase) {
		t.Helper()
		_, err := st.Commit(t.Context(), now, func(s state.State, _ store.Recovery) (state.State, error) {
			return state.Step(s, []state.Event{state.Ordered{To: to}}, state.Policy{}, now), nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	order(state.PREP)
	order(state.ACTIVE)
	order(state.PREP)

	lines := make(chan state.Line, 10)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		shows := func(l state.Line) linePrinter { return func() error { lines <- l; return nil } }
		tail := historyTail{store: st, most: 2, unread: func() bool { return false }, shows: shows}
		if err := tail.print(); err != nil {
			done <- err
			return
		}
		done <- tail.follow(ctx)
	}()
	want := func(phase state.Phase) {
		t.Helper()
		if l := <-lines; l.New != phase {
			t.Fatalf("got the transition to %s, want the one to %s", l.New, phase)
		}
	}
	want(state.ACTIVE)
	want(state.PREP)
	order(state.PREP) // changes nothing and writes no line
	order(state.IDLE)
	want(state.IDLE)
	order(state.ACTIVE)
	want(state.ACTIVE)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(lines) > 0 {
		t.Errorf("%d lines too many", len(lines))
	}
}
