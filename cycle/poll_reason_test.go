package cycle_test

import (
	"context"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

func (h *fixture) pollReason() string {
	h.t.Helper()
	why, err := h.agent.PollReason()
	check(h.t, err)
	return why
}

// A listener polls for a nudge, a poll that cron did not make, and a turn whose
// runner is gone.
func TestPollReason(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	if got := h.pollReason(); got != "next poll" {
		t.Errorf("never polled: %q", got)
	}
	h.poll()
	if got := h.pollReason(); got != "" {
		t.Errorf("just polled: %q", got)
	}
	check(t, h.agent.Ring("test", ""))
	if got := h.pollReason(); got != "nudge" {
		t.Errorf("rung: %q", got)
	}
	h.poll()
	h.clock.advance(h.state().NextDue.Sub(h.clock.Now()))
	if got := h.pollReason(); got != "" {
		t.Errorf("cron is about to come: %q", got)
	}
	h.clock.advance(time.Minute)
	if got := h.pollReason(); got != "next poll" {
		t.Errorf("cron did not come: %q", got)
	}
}

// What has a time of its own does not wait for cron, which is about to come or, with mode
// "none", may not.
func TestPollReasonDueRow(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.agent.Policy.Collect = 20 * time.Second
	h.clock.advance(h.state().NextDue.Sub(h.clock.Now()) - 30*time.Second)
	_, err := h.agent.Tell(t.Context(), "op", "one")
	check(t, err)
	h.clock.advance(20*time.Second - time.Millisecond)
	if got := h.pollReason(); got != "" {
		t.Errorf("before the sender was silent: %q", got)
	}
	h.clock.advance(time.Millisecond)
	if got := h.pollReason(); got != "inbox" {
		t.Errorf("when the sender was silent, ten seconds before cron comes: %q", got)
	}
}

// A phase does not end while a turn is suspended, for hours perhaps: nothing is due then.
func TestNoPollReasonWhileATurnWaits(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.agent.RunTurn = func(ctx context.Context, at turn.Attempt) (turn.Result, error) {
		_, err := h.agent.Suspend(ctx, cycle.Inside{TurnID: at.TurnID, Epoch: at.Epoch}, "", time.Hour)
		return turn.Result{Status: turn.Success, Exit: turn.ExitClean, Text: "deploying"}, err
	}
	h.sayByMail("deploy")
	for range 12 {
		h.pollAfter(time.Minute)
		if got := h.pollReason(); got != "" {
			t.Errorf("while the turn waits: %q", got)
		}
	}
	h.wantPhase(state.PREP)
}

func TestPollReasonDeadRunner(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.receive(letter{})
	_, err := h.agent.Poll(t.Context(), cycle.PollOptions{NoTurn: true})
	check(t, err)
	// A runner claims the message, holding turn.lock, and is gone.
	lock, err := h.agent.Store.TryLock(store.TurnLock)
	check(t, err)
	now := h.clock.Now()
	_, err = h.agent.Store.Commit(t.Context(), now, func(s state.State, _ store.Recovery) (state.State, error) {
		return state.Step(s, []state.Event{state.Claimed{}}, h.agent.Policy, now), nil
	})
	check(t, err)
	if got := h.pollReason(); got != "" {
		t.Errorf("its runner is at work, and it wants: %q", got)
	}
	check(t, lock.Unlock())
	if got := h.pollReason(); got != "turn without a runner" {
		t.Errorf("its runner is gone: %q", got)
	}
}

// While an agent lingers after its answer no turn can begin. A message that waits does not
// make a listener log in each second: the runner takes it, or the watchdog does.
func TestNoPollReasonWhileAnAgentLingers(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	_, err := h.agent.Tell(t.Context(), "op", "one")
	check(t, err)
	h.changeState(func(s *state.State) {
		s.Turn = state.Head{Status: state.HeadIdle, TurnID: "t1", Epoch: 1, Lingers: true}
	})
	lock, err := h.agent.Store.TryLock(store.TurnLock)
	check(t, err)
	if got := h.pollReason(); got != "" {
		t.Errorf("its runner follows it, and it wants: %q", got)
	}
	check(t, lock.Unlock())
	if got := h.pollReason(); got != "turn without a runner" {
		t.Errorf("its runner is gone: %q", got)
	}
}
