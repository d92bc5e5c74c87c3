package cycle_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
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

// TestMoveToAnotherPlace moves an agent that was moved already. The first place may have worked, so the
// messages that wait are held. The same move again changes nothing.
func TestMoveToAnotherPlace(t *testing.T) {
	h := newAwakeFixture(t)
	h.queue("waits")
	for range 2 {
		if _, err := h.move(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if s := h.state(); s.Moved == nil || len(s.HeldRows()) != 0 {
			t.Fatalf("moved %+v, held %+v", s.Moved, s.HeldRows())
		}
	}
	check(t, h.agent.Move(t.Context(), cycle.MoveOptions{To: "third", Archive: "/b"}, func() error { return nil }))
	if s := h.state(); s.Moved == nil || s.Moved.To != "third" || len(s.HeldRows()) != 1 || s.Restore == nil || s.Restore.From != "/a" {
		t.Errorf("moved %+v, held %+v, restore %+v", s.Moved, s.HeldRows(), s.Restore)
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

// TestMoveStopsPolls checks that a move removes our timer and our crontab lines in each mode, leaves
// the user's own lines, and works without a crontab.
func TestMoveStopsPolls(t *testing.T) {
	const own = "* * * * * agentstateloop --config agent.toml poll --if-due --quiet\n"
	for _, mode := range []string{cycle.ModeCrontab, cycle.ModeSystemd, cycle.ModeFixed, cycle.ModeNone} {
		h, m := newTimerFixture(t, func() {})
		h.install(cycle.ModeSystemd)
		line, err := h.agent.Job(h.state()).Line()
		check(t, err)
		check(t, os.WriteFile(h.table, []byte(foreignLines+own+line+"\n"), 0o600))
		if !h.line() || !polls(t, m) {
			t.Fatal("neither the line nor the timer polls before the move")
		}
		h.agent.Schedule.Mode = mode
		if written, err := h.move(t.Context(), nil); !written || err != nil {
			t.Errorf("%s: written %v, %v", mode, written, err)
		}
		if h.line() || polls(t, m) || string(mustRead(t, h.table)) != foreignLines+own {
			t.Errorf("%s: line %v, timer %v, table:\n%s", mode, h.line(), polls(t, m), mustRead(t, h.table))
		}
	}
	for name, lines := range map[string]string{
		"no program":  "",
		"not allowed": `echo "You are not allowed to use this program (crontab)" >&2; exit 1`,
	} {
		h := newAwakeFixture(t)
		if h.crontab(lines); lines == "" {
			h.agent.Schedule.Table.Command = filepath.Join(t.TempDir(), "none")
		}
		if written, err := h.move(t.Context(), nil); !written || err != nil {
			t.Errorf("%s: written %v, %v", name, written, err)
		}
		if _, _, err := h.agent.Uninstall(t.Context()); err == nil {
			t.Errorf("%s: uninstall reports no error, although the lines may still be there", name)
		}
	}
}
