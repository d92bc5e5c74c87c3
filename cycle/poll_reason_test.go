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

// wantPollReason fails unless PollReason returns this reason.
func (h *fixture) wantPollReason(when, want string) {
	h.t.Helper()
	if got, err := h.agent.PollReason(); got != want || err != nil {
		h.t.Errorf("%s: the reason for a poll is %q, %v; want %q", when, got, err, want)
	}
}

// A listener polls for a nudge, a poll that cron did not make, and a turn whose
// runner is gone.
func TestPollReason(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.wantPollReason("before the first poll", "next poll")
	h.poll()
	h.wantPollReason("after a poll", "")
	check(t, h.agent.Ring("test", ""))
	h.wantPollReason("after a nudge", "nudge")
	h.poll()
	h.clock.advance(h.state().NextDue.Sub(h.clock.Now()))
	h.wantPollReason("when cron is about to poll", "")
	h.clock.advance(time.Minute)
	h.wantPollReason("when cron did not poll", "next poll")
}

// A timed row does not wait for cron, which may be about to poll or, in mode "none", never polls.
func TestPollReasonDueRow(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.agent.Policy.Collect = 20 * time.Second
	h.clock.advance(h.state().NextDue.Sub(h.clock.Now()) - 30*time.Second)
	h.queue("one")
	h.clock.advance(20*time.Second - time.Millisecond)
	h.wantPollReason("before the sender was silent", "")
	h.clock.advance(time.Millisecond)
	h.wantPollReason("when the sender was silent, ten seconds before cron polls", "inbox")
}

// A phase does not end while a turn is suspended, so no poll is due.
func TestPollReasonWhileTurnWaits(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.agent.RunTurn = func(ctx context.Context, at turn.Attempt) (turn.Result, error) {
		_, err := h.agent.Suspend(ctx, cycle.Inside{TurnID: at.TurnID, Epoch: at.Epoch}, "", time.Hour)
		return turn.Result{Status: turn.Success, Exit: turn.ExitClean, Text: "deploying"}, err
	}
	h.sayByMail("deploy")
	for range 12 {
		h.pollAfter(time.Minute)
		h.wantPollReason("while the turn waits", "")
	}
	h.wantPhase(state.PREP)
}

func TestPollReasonDeadRunner(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.receive(letter{})
	h.collect()
	// A runner claims the message, holding turn.lock, and is gone.
	lock, err := h.agent.Store.TryLock(store.TurnLock)
	check(t, err)
	h.step(state.Claimed{})
	h.wantPollReason("with a runner", "")
	check(t, lock.Unlock())
	h.wantPollReason("after the runner has ended", "turn without a runner")
}

// While an agent lingers after its answer no turn can begin. A message that waits does not
// make a listener log in each second: the runner takes it, or the watchdog does.
func TestPollReasonWhileAgentLingers(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.queue("one")
	h.changeState(func(s *state.State) {
		s.Turn = state.Head{Status: state.HeadIdle, TurnID: "t1", Epoch: 1, Lingers: true}
	})
	lock, err := h.agent.Store.TryLock(store.TurnLock)
	check(t, err)
	h.wantPollReason("while its runner follows it", "")
	check(t, lock.Unlock())
	h.wantPollReason("after its runner has ended", "turn without a runner")
}
