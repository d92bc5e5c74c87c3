package cycle_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// newPullFixture returns a fixture whose agent pulls: no runner runs its messages.
func newPullFixture(t *testing.T) *fixture {
	t.Helper()
	h := newAwakeFixture(t)
	h.agent.Policy.Ack = false
	h.agent.Policy.Turns = false
	h.agent.Policy.TurnTimeout = 10 * time.Minute
	h.agent.Turn = nil
	return h
}

// An agent that pulls takes a message, and hands back its answer.
func TestPulledMessageIsAnswered(t *testing.T) {
	h := newPullFixture(t)
	if _, err := h.agent.Next(t.Context()); !errors.Is(err, cycle.ErrNothing) {
		t.Errorf("with nothing there: %v", err)
	}
	h.receive(letter{id: "<one@example.com>", body: "one"})
	h.receive(letter{id: "<two@example.com>", body: "two"})
	h.poll()
	h.wantSent("")
	first, err := h.agent.Next(t.Context())
	check(t, err)
	if first.Text != "one" || first.From != operator {
		t.Errorf("pulled: %+v", first)
	}
	if _, err := h.agent.Next(t.Context()); err == nil || !strings.Contains(err.Error(), "is not done") {
		t.Errorf("two at once: %v", err)
	}
	in := cycle.Inside{TurnID: first.TurnID, Epoch: first.Epoch}
	check(t, h.agent.Done(t.Context(), in, "the answer"))
	if err := h.agent.Done(t.Context(), in, "another"); !errors.Is(err, cycle.ErrStale) {
		t.Errorf("done twice: %v", err)
	}
	h.wantTasks(state.Success)
	h.wantReplies("the answer")
	second, err := h.agent.Next(t.Context())
	check(t, err)
	if second.Text != "two" || second.Epoch <= first.Epoch {
		t.Errorf("pulled: %+v", second)
	}
}

// If no message can be pulled, the error gives the reason.
func TestEmptyPullReason(t *testing.T) {
	h := newPullFixture(t)
	h.receive(letter{id: "<one@example.com>", body: "one"})
	h.poll()
	refused := func(why string) {
		t.Helper()
		if _, err := h.agent.Next(t.Context()); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, want %q", err, why)
		}
	}
	h.halt()
	refused("HALTED")
	h.resume()
	h.agent.Policy.Budget = state.Budget{HasCredit: true}
	refused("the agent is out of money: the credit of $0.00 is used up, and your messages wait until it is topped up: `agentstateloop credit 5`")
	h.agent.Policy.Budget = state.Budget{}
	if m, err := h.agent.Next(t.Context()); err != nil || m.Text != "one" {
		t.Errorf("%+v, %v", m, err)
	}
}

// The agent has turn.timeout to answer. Then the message is handed out again, with a note, and a
// late answer is refused.
func TestPulledMessageTimesOut(t *testing.T) {
	h := newPullFixture(t)
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	first, err := h.agent.Next(t.Context())
	check(t, err)
	for range 9 {
		h.pollAfter(time.Minute)
	}
	if head := h.state().Turn; head.Epoch != first.Epoch || head.Status != state.HeadRunning {
		t.Fatalf("reaped early: %+v", head)
	}
	h.pollAfter(2 * time.Minute)
	if head := h.state().Turn; head.Status != state.HeadIdle {
		t.Fatalf("not reaped: %+v", head)
	}
	again, err := h.agent.Next(t.Context())
	check(t, err)
	if again.TurnID != first.TurnID || again.Epoch <= first.Epoch || !strings.Contains(again.Note, "half done") {
		t.Errorf("pulled: %+v", again)
	}
	if err := h.agent.Done(t.Context(), cycle.Inside{TurnID: first.TurnID, Epoch: first.Epoch}, "late"); !errors.Is(err, cycle.ErrStale) {
		t.Errorf("late: %v", err)
	}
	check(t, h.agent.Done(t.Context(), cycle.Inside{TurnID: again.TurnID, Epoch: again.Epoch}, "in time"))
	h.wantTasks(state.Success)
}

// After three timeouts the message is given up, and its sender is told.
func TestPulledMessageIsGivenUp(t *testing.T) {
	h := newPullFixture(t)
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	for range h.agent.Policy.MaxAttempts {
		_, err := h.agent.Next(t.Context())
		check(t, err)
		h.pollAfter(11 * time.Minute)
	}
	h.wantTasks(state.Failed)
	wantWords(t, h.onlyReply().text, "taken by `inbox next`, but not ended by `inbox done` in time, and this was attempt 3 of 3")
}

// `stop` ends a pulled turn at once.
func TestPulledTurnIsStopped(t *testing.T) {
	h := newPullFixture(t)
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	m, err := h.agent.Next(t.Context())
	check(t, err)
	check(t, h.agent.Stop(t.Context(), "test"))
	h.wantTasks(state.Canceled)
	if err := h.agent.Done(t.Context(), cycle.Inside{TurnID: m.TurnID, Epoch: m.Epoch}, "late"); !errors.Is(err, cycle.ErrStale) {
		t.Errorf("done after stop: %v", err)
	}
}

// A message whose file is lost does not block the next one, and is handed out once it is fetched
// again.
func TestPulledMessageWithLostText(t *testing.T) {
	h := newPullFixture(t)
	h.receive(letter{id: "<one@example.com>", body: "one"})
	h.poll()
	check(t, os.RemoveAll(h.agent.Store.Path(store.MessagesDir)))
	h.receive(letter{id: "<two@example.com>", body: "two"})
	h.pollAfter(time.Minute)
	m, err := h.agent.Next(t.Context())
	check(t, err)
	if m.Text != "two" {
		t.Errorf("pulled: %+v", m)
	}
	check(t, h.agent.Done(t.Context(), cycle.Inside{TurnID: m.TurnID, Epoch: m.Epoch}, "done"))
	h.pollAfter(time.Minute)
	m, err = h.agent.Next(t.Context())
	check(t, err)
	if m.Text != "one" {
		t.Errorf("pulled: %+v", m)
	}
}

// Retry queues a failed message again under a new turn, and a dropped message does not run.
func TestRetryAndDrop(t *testing.T) {
	h := newAwakeFixture(t)
	h.agent.Policy.Ack = false
	h.script("#!/bin/sh\necho out of luck >&2; exit 1\n")
	h.receive(letter{id: "<one@example.com>", body: "one"})
	h.poll()
	h.wantTasks(state.Failed)
	key := h.lines(state.LineTask)[0].Key
	h.script(answeringScript)
	_, err := h.agent.Retry(t.Context(), key, "")
	check(t, err)
	h.poll()
	tasks := h.wantTasks(state.Failed, state.Success)
	if tasks[0].TurnID == tasks[1].TurnID {
		t.Errorf("a message that is queued again has its old turn: %+v", tasks)
	}
	if _, err := h.agent.Retry(t.Context(), "mail:none.1.1", ""); err == nil {
		t.Error("a message that never was is queued again")
	}

	key, err = h.agent.Tell(t.Context(), "me", "never mind")
	check(t, err)
	check(t, h.agent.Drop(t.Context(), key, "test"))
	if err := h.agent.Drop(t.Context(), key, "test"); err == nil {
		t.Error("dropped twice")
	}
	if r := h.poll(); r.Turns != 0 {
		t.Errorf("a dropped message ran: %+v", r)
	}
}
