package cycle_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// pausingScript is an agent whose first attempt says that it is up, and then works
// until it is told to go on. Later attempts answer at once.
const pausingScript = `#!/bin/sh
echo "$AGENTSTATELOOP_TURN $AGENTSTATELOOP_EPOCH" >>runs
cat >prompt
if [ ! -e second ]; then
	: >second
	echo up >up
	read -r line <go
fi
echo "answer of epoch $AGENTSTATELOOP_EPOCH"
`

// pauseFirstAttempt gives the fixture a lingering agent. up waits until its first attempt
// works; goOn lets that attempt end.
func (h *fixture) pauseFirstAttempt() (up, goOn func()) {
	h.t.Helper()
	h.script(pausingScript)
	up, _ = h.pipe("up")
	_, goOn = h.pipe("go")
	return up, goOn
}

// A runner that is killed leaves its agent behind. The next poll ends that
// agent before it lets the message run again, under a higher epoch, with a
// note.
func TestKilledRunnerIsReaped(t *testing.T) {
	h := newAwakeFixture(t)
	up, _ := h.pauseFirstAttempt()
	h.receive(letter{id: "<one@example.com>"})
	h.killRunner(up)
	first := h.state().Turn
	if first.Status != state.HeadRunning {
		t.Fatalf("the turn head: %+v", first)
	}
	dir := h.agent.Store.Path(filepath.Join(store.TurnsDir, first.TurnID, fmt.Sprint(first.Epoch)))
	if held, _, err := turn.Probe(dir); err != nil || !held {
		t.Fatalf("the orphan: held %v, %v; the test needs one that lives", held, err)
	}

	h.pollAfter(time.Minute)
	if held, _, err := turn.Probe(dir); err != nil || held {
		t.Errorf("the orphan lives on: %v, %v", held, err)
	}
	tasks := h.lines(state.LineTask)
	if len(tasks) != 1 || tasks[0].TurnID != first.TurnID || tasks[0].Epoch <= first.Epoch || tasks[0].Outcome != state.Success {
		t.Errorf("task lines: %+v after %+v", tasks, first)
	}
	h.wantReplies(fmt.Sprintf("answer of epoch %d", tasks[0].Epoch))
	wantWords(t, h.prompt(), "half done")
}

// reapUnder takes the turn away from its living runner, as a watchdog does that
// takes the runner to be dead.
func (h *fixture) reapUnder() {
	h.t.Helper()
	head := h.state().Turn
	h.step(state.Reaped{TurnID: head.TurnID, Epoch: head.Epoch, Reason: "test"})
}

// The result of a runner with a stale epoch is neither sent nor kept.
func TestStaleResultIsDropped(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]bool{"it ends by itself": true, "it goes on": false} {
		t.Run(name, func(t *testing.T) {
			h := newAwakeFixture(t)
			h.agent.Turn.Timeout = time.Hour
			up, goOn := h.pauseFirstAttempt()
			h.receive(letter{id: "<one@example.com>"})
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // of a test that fails
			defer cancel()
			done := pollOf(ctx, h.agent, cycle.PollOptions{})
			up()
			h.reapUnder()
			if ends {
				goOn()
			}
			check(t, (<-done).err)
			tasks := h.lines(state.LineTask)
			if len(tasks) != 1 || tasks[0].Epoch != 3 {
				t.Fatalf("task lines: %+v, want one, of epoch 3", tasks)
			}
			h.wantReplies("answer of epoch 3")
			if left, _ := os.ReadDir(h.agent.Store.Path(store.OutboxDir)); len(left) > 0 {
				t.Errorf("left in outbox/: %v", left)
			}
		})
	}
}

// After the last attempt the turn is closed with the output so far, and answered.
func TestLastAttemptEndsInOneReply(t *testing.T) {
	h := newAwakeFixture(t)
	h.receive(letter{id: "<one@example.com>"})
	h.collect()
	for range h.agent.Policy.MaxAttempts {
		h.startAndDie()
		h.clock.advance(time.Minute)
		h.collect()
	}
	h.pollAfter(time.Minute)
	if tasks := h.lines(state.LineTask); len(tasks) != 1 || tasks[0].Outcome != state.Failed {
		t.Errorf("task lines: %+v", tasks)
	}
	wantWords(t, h.onlyReply().text, "attempt 3 of 3")
	h.wantRuns(0)
}

// startAndDie is a runner that claims a message and is gone.
func (h *fixture) startAndDie() {
	h.t.Helper()
	head := h.step(state.Claimed{}).Turn
	if s := h.step(state.Started{TurnID: head.TurnID, Epoch: head.Epoch}); s.Turn.Status != state.HeadRunning {
		h.t.Fatalf("the turn is %s", s.Turn.Status)
	}
}

// A mail whose file is lost is fetched again, and a message of the mesh is answered with the
// error.
func TestLostPayload(t *testing.T) {
	h := newAwakeFixture(t)
	h.receive(letter{id: "<one@example.com>"})
	h.post(meshMessage("q1"))
	h.collect()
	check(t, os.RemoveAll(h.agent.Store.Path(store.MessagesDir)))
	h.poll()
	wantWords(t, h.onlyReply().text, "I read: are you there?")
	if got := h.reports(); len(got) != 1 || got[0].Correlation != "q1" || !strings.Contains(got[0].Text, "no such file") {
		t.Errorf("reports: %+v", got)
	}
	if s := h.state(); len(s.Inbox)+len(s.Outbox) > 0 {
		t.Errorf("left: %+v, %+v", s.Inbox, s.Outbox)
	}
}

// An agent that replaces its own lock cannot stop later cycles (docs/design.md, "Promises" 6).
func TestUnreadableAgentLock(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(alive string) error{
		"a link":   func(alive string) error { return os.Symlink("/nonexistent", alive) },
		"a folder": func(alive string) error { return os.Mkdir(alive, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newAwakeFixture(t)
			h.receive(letter{id: "<one@example.com>"})
			h.collect()
			h.startAndDie()
			head := h.state().Turn
			dir := h.agent.Store.Path(filepath.Join(store.TurnsDir, head.TurnID, fmt.Sprint(head.Epoch)))
			check(t, os.MkdirAll(dir, 0o700))
			check(t, spoil(filepath.Join(dir, "alive")))
			h.pollAfter(time.Minute)
			h.wantSent("ack reply")
		})
	}
}
