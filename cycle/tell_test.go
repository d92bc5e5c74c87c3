package cycle_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"agentstateloop/state"
)

// `tell` is an operator's message from the terminal: it is answered there and not by mail.
func TestTellIsAnsweredAtTheTerminal(t *testing.T) {
	h := newAwakeFixture(t)
	key, err := h.agent.Tell(t.Context(), "me", "what are you working on?")
	check(t, err)
	h.poll()
	d, err := h.agent.Await(t.Context(), key)
	check(t, err)
	if d.Text != "I read: what are you working on?" || d.Outcome != state.Success || d.TurnID == "" {
		t.Errorf("deliverable: %+v", d)
	}
	h.wantPhase(state.PREP)
	h.wantSent("")
}

func TestTellRefusesEmptyMessage(t *testing.T) {
	h := newAwakeFixture(t)
	if _, err := h.agent.Tell(t.Context(), "me", " \n"); err == nil {
		t.Error("an empty message was taken")
	}
	if s := h.state(); len(s.Inbox) != 0 {
		t.Errorf("inbox: %+v", s.Inbox)
	}
}

// The end of the wait does not end the turn.
func TestAwaitEndsWithItsContext(t *testing.T) {
	h := newAwakeFixture(t)
	key, err := h.agent.Tell(t.Context(), "me", "hello")
	check(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.agent.Await(ctx, key); !errors.Is(err, context.Canceled) {
		t.Errorf("await: %v", err)
	}
	if _, waits := h.state().Message(key); !waits {
		t.Error("the message is gone")
	}
}

// Await returns an error for a message that has no money for its turn, even if it is being
// collected.
func TestAwaitEndsWithTheMoney(t *testing.T) {
	for _, silence := range []time.Duration{0, 20 * time.Second} {
		h := newAwakeFixture(t)
		h.agent.Policy.Collect = silence
		h.agent.Policy.Budget = state.Budget{HasCredit: true}
		key, err := h.agent.Tell(t.Context(), "me", "hello")
		check(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := h.agent.Await(ctx, key); err == nil || !strings.Contains(err.Error(), "out of money") {
			t.Errorf("collect %v: %v", silence, err)
		}
	}
}

// A waiting process finds the deliverable from the moment the turn is over,
// even while its history line is being written.
func TestAwaitReadsStateBeforeHistory(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	key, err := h.agent.Tell(t.Context(), "me", "hello")
	check(t, err)
	var found []string
	h.agent.Store.Hook = func(step, _ string) error {
		s := h.state()
		if _, waits := s.Message(key); step != "append" || waits {
			return nil
		}
		d, err := h.blueprint.agent(h.clock.Now).Await(t.Context(), key)
		found = append(found, fmt.Sprint(d.Text, err))
		return nil
	}
	h.poll()
	if len(found) == 0 || found[0] != "I read: hello<nil>" {
		t.Errorf("found %q", found)
	}
}
