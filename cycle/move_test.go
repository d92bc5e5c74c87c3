package cycle_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/state/store"
)

// move moves the agent to another host. It reports whether the archive was written.
func (h *fixture) move(ctx context.Context, waiting func(reason string)) (written bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	err = h.agent.Move(ctx, cycle.MoveOptions{To: "otherhost", Archive: "/a", Waiting: waiting}, func() error { written = true; return nil })
	return written, err
}

// TestMoveOfRemovedAgent checks that a move neither waits nor does anything while `uninstall --purge`
// removes the agent, or was killed, and that a move that already waits ends.
func TestMoveOfRemovedAgent(t *testing.T) {
	h := newAwakeFixture(t)
	check(t, h.agent.Store.MarkRemoval())
	written, err := h.move(t.Context(), func(reason string) { t.Errorf("it waits for %s", reason) })
	if written || !errors.Is(err, cycle.ErrBeingRemoved) || h.state().Moved != nil {
		t.Errorf("written %v, moved %+v, %v", written, h.state().Moved, err)
	}
	check(t, h.agent.Store.UnmarkRemoval())
	lock, err := h.agent.Store.TryLock(store.TurnLock)
	check(t, err)
	written, err = h.move(t.Context(), func(string) { check(t, h.agent.Store.MarkRemoval()) })
	if written || !errors.Is(err, cycle.ErrBeingRemoved) || h.state().Moved != nil {
		t.Errorf("while it waits: written %v, moved %+v, %v", written, h.state().Moved, err)
	}
	check(t, lock.Unlock())
	check(t, h.agent.Store.UnmarkRemoval())
	if written, err := h.move(t.Context(), nil); !written || err != nil {
		t.Errorf("an agent that stays: written %v, %v", written, err)
	}
}

// TestMoveWaits checks that a move reports each holder once, waits for it, and that an interrupted
// move holds no lock.
func TestMoveWaits(t *testing.T) {
	h := newAwakeFixture(t)
	locks := []string{store.TurnLock, store.CycleLock, store.FetchLock, store.HookLock, store.SentLock}
	reasons := []string{"the running turn", "a poll", "the fetch of large mail", "the calls of hooks", "the copies of sent mail"}
	var held []*store.Lock
	for _, name := range locks {
		lock, err := h.agent.Store.TryLock(name)
		check(t, err)
		held = append(held, lock)
	}
	var waited []string
	ctx, cancel := context.WithCancel(t.Context())
	written, err := h.move(ctx, func(reason string) {
		if waited = append(waited, reason); reason == "the copies of sent mail" {
			cancel()
			return
		}
		first := held[0]
		held = held[1:]
		time.AfterFunc(100*time.Millisecond, func() { check(t, first.Unlock()) })
	})
	if written || !errors.Is(err, cycle.ErrInterrupted) || !slices.Equal(waited, reasons) {
		t.Errorf("written %v, %v; it waited for %q, want %q", written, err, waited, reasons)
	}
	check(t, held[0].Unlock())
	for _, name := range locks {
		lock, err := h.agent.Store.TryLock(name)
		check(t, err)
		if lock == nil {
			t.Errorf("%s is still held", name)
			continue
		}
		check(t, lock.Unlock())
	}
}
