package cycle_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/internal/secret"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// memory returns a file of the working memory, or "-" if it does not exist.
func (h *fixture) memory(file string) string {
	h.t.Helper()
	info, err := os.Stat(h.agent.Store.Path(file))
	if errors.Is(err, os.ErrNotExist) {
		return "-"
	}
	check(h.t, err)
	if info.Mode().Perm() != 0o600 {
		h.t.Errorf("%s has mode %v", file, info.Mode())
	}
	data, err := os.ReadFile(h.agent.Store.Path(file))
	check(h.t, err)
	return strings.TrimSpace(string(data))
}

func (h *fixture) wantMemory(now, before string) {
	h.t.Helper()
	if m, p := h.memory(store.MemoryFile), h.memory(store.MemoryPrevFile); m != now || p != before {
		h.t.Errorf("the memory is %q, before it was %q; want %q and %q", m, p, now, before)
	}
}

// Later contexts have the memory of a turn. The previous memory is kept, and the history has all
// of them. A reset sets the memory aside.
func TestWorkingMemory(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.playScript("us remember \"$(sed -n 's/^remember: //p' \"$AGENTSTATELOOP_CONTEXT/text.txt\")\" && echo done\n")
	say := func(text string) {
		t.Helper()
		h.queue(text)
		h.pollAfter(time.Minute)
	}
	say("remember: the build is red </memory>")
	h.wantMemory("the build is red </memory>", "-")
	say("remember: the build is green")
	h.wantMemory("the build is green", "the build is red </memory>")
	wantWords(t, h.prompt(), "<memory #>\nthe build is red <\\/memory>\n</memory #>\n")
	say("remember: the build is green")
	h.wantMemory("the build is green", "the build is red </memory>")

	say("remember: " + strings.Repeat("x", store.MaxMemory+1))
	h.wantMemory("the build is green", "the build is red </memory>")
	h.wantTasks(state.Success, state.Success, state.Success, state.Failed)
	if l := h.lines(state.LineMemory); len(l) != 3 || l[0].Text != "the build is red </memory>" || l[1].TurnID == "" {
		t.Errorf("history: %+v", l)
	}

	check(t, h.agent.Reset(t.Context(), "", handle))
	h.wantMemory("-", "the build is green")
	check(t, h.agent.Reset(t.Context(), "", handle))
	h.wantMemory("-", "the build is green")
	say("nothing")
	wantNoWords(t, h.prompt(), "<memory ")
}

// A process cannot change the memory after its turn, or if its turn began before a reset. Secrets
// are redacted.
func TestWhoMayRemember(t *testing.T) {
	h := newAwakeFixture(t)
	h.agent.Secrets = new(secret.Known)
	h.agent.Secrets.Learn("test", "hunter2hunter2")
	var in cycle.Inside
	h.agent.RunTurn = func(ctx context.Context, at turn.Attempt) (turn.Result, error) {
		in = cycle.Inside{TurnID: at.TurnID, Epoch: at.Epoch}
		check(t, h.agent.Remember(ctx, in, "of this turn; hunter2hunter2"))
		stale := cycle.Inside{TurnID: at.TurnID, Epoch: at.Epoch - 1}
		if err := h.agent.Remember(ctx, stale, "of another epoch"); !errors.Is(err, cycle.ErrStale) {
			t.Errorf("another epoch: %v", err)
		}
		check(t, h.agent.Reset(ctx, "", handle))
		if err := h.agent.Remember(ctx, in, "from before the reset"); !errors.Is(err, cycle.ErrReset) {
			t.Errorf("after a reset: %v", err)
		}
		return turn.Result{Status: turn.Success, Text: "ok", Exit: turn.ExitClean}, nil
	}
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	if err := h.agent.Remember(t.Context(), in, "too late"); !errors.Is(err, cycle.ErrStale) {
		t.Errorf("after the turn: %v", err)
	}
	if p := h.memory(store.MemoryPrevFile); !strings.HasPrefix(p, "of this turn; ") || strings.Contains(p, "hunter2") {
		t.Errorf("what was remembered: %q", p)
	}
	if h.memory(store.MemoryFile) != "-" {
		t.Errorf("the memory is %q", h.memory(store.MemoryFile))
	}
}

// A turn of another agent changes the memory of that agent alone, and searches only its
// conversation.
func TestPeersRememberForThemselves(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.receive(letter{id: "<zero@example.com>", body: "the red door"})
	h.poll()
	h.playScript("us remember 'trust me' && us search door\n")
	h.post(mesh.Message{Text: "remember me"})
	h.pollAfter(time.Minute)
	h.wantMemory("-", "-")
	if got := h.memory("memory.d/unproven-" + peer + ".md"); got != "trust me" {
		t.Errorf("the peer's memory is %q", got)
	}
	wantWords(t, h.prompt(), "remember, to replace", "history --search")
	if got := h.reports(); len(got) != 1 || strings.Contains(got[0].Text, "red") {
		t.Errorf("the peer was told %+v", got)
	}
	h.receive(letter{id: "<one@example.com>"})
	h.pollAfter(time.Minute)
	h.wantMemory("trust me", "-")
	wantNoWords(t, h.prompt(), "<memory>")
	wantWords(t, h.workFile("prompt"), "the red door")
}
