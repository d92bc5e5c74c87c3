package state_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"agentstateloop/internal/testkit/statetest"
	"agentstateloop/state"
)

// check fails the test if err is not nil.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestMintedIDs checks that an id is never minted twice, not even by a state that
// was restored from an older copy.
func TestMintedIDs(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)
	seen := map[string]bool{}
	s := state.New("goulard3120", "seed")
	for i := range 50 {
		older := s
		for range 3 { // three lives from the same state, at other times
			now = now.Add(time.Second)
			s = state.Step(older, []state.Event{state.Recovered{Reason: fmt.Sprint(i)}}, statetest.Policy(), now)
			id := s.Outbox[len(s.Outbox)-1].ID
			if seen[id] {
				t.Fatalf("%s was minted twice", id)
			}
			seen[id] = true
		}
	}
	other := state.Step(state.New("goulard3120", "another seed"), []state.Event{state.Recovered{Reason: "0"}}, statetest.Policy(), now)
	if seen[other.Outbox[0].ID] {
		t.Error("two agents minted the same id")
	}
}

// TestSendingPauses checks the minutes between the tries of a failing row, each made at the end
// of its pause.
func TestSendingPauses(t *testing.T) {
	const id = "effect.1"
	sends := func(kind state.EffectKind, failed state.SendFailed) state.State {
		failed.ID = id
		s := agentWithRow(state.Effect{ID: id, Kind: kind})
		return step(s, nine, state.Sending{ID: id}, failed)
	}
	again := func(failed state.SendFailed) func(state.State, time.Time) (state.State, time.Time) {
		failed.ID = id
		return func(s state.State, now time.Time) (state.State, time.Time) {
			s = step(s, now, state.Sending{ID: id}, failed)
			return s, s.NextTry(id)
		}
	}
	hook := agent()
	hook.HookCalls = []state.Effect{{ID: "hook.1", To: "ops"}}
	for name, c := range map[string]struct {
		s    state.State
		fail func(s state.State, now time.Time) (state.State, time.Time)
		want []int
	}{
		"a notice":             {sends(state.Notice, state.SendFailed{}), again(state.SendFailed{}), []int{2, 4, 8, 16, 32, 60, 60}},
		"an answer that waits": {sends(state.Reply, state.SendFailed{}), again(state.SendFailed{}), append(slices.Repeat([]int{1}, 61), 2, 4, 8, 16, 32, 60, 60)},
		"of unknown fate":      {sends(state.Reply, state.SendFailed{Unknown: true}), again(state.SendFailed{Unknown: true}), []int{2, 4, 8}},
		"as the server asks":   {sends(state.Notice, state.SendFailed{}), again(state.SendFailed{RetryAfter: 5 * time.Minute}), []int{5, 5}},
		"an hour at most":      {sends(state.Notice, state.SendFailed{}), again(state.SendFailed{RetryAfter: 2 * time.Hour}), []int{60, 60}},
		"a hook": {hook, func(s state.State, now time.Time) (state.State, time.Time) {
			s.LastStep = now // so that a day does not pass
			s = stepWithHookAt(s, now, state.HookFailed{ID: "hook.1"})
			return s, s.HookCalls[0].NotBefore
		}, []int{1, 2, 4, 8, 16, 32, 60, 60}},
	} {
		t.Run(name, func(t *testing.T) {
			s, now, got := c.s, nine, []int{}
			if len(s.Outbox) > 0 {
				now = s.NextTry(id)
				if first := now.Sub(nine); first != time.Minute {
					t.Errorf("the first pause is %v", first)
				}
			}
			for range c.want {
				var next time.Time
				s, next = c.fail(s, now)
				got = append(got, int(next.Sub(now)/time.Minute))
				now = next
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("the pauses are %v, want %v", got, c.want)
			}
		})
	}
}
