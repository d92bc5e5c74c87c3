package cycle_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/state"
	"agentstateloop/turn"
)

// A turn whose runner was killed hands back the output and the files of its
// agent, and says how it ended (docs/design.md, "Turns").
func TestDeadTurnReturnsItsOutput(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.agent.Policy.MaxAttempts = 1
	h.playScript("echo x >\"$AGENTSTATELOOP_OUTPUT/part.txt\"; echo 'half of the answer'; exec sleep 300\n")
	h.receive(letter{id: "<one@example.com>"})
	h.killRunner(func() {
		until(t, "the agent speaks", func() bool {
			return h.state().Turn.Status == state.HeadRunning && turn.ReplayOutput(h.attempt()) != ""
		})
	})
	h.pollAfter(time.Minute)
	task := h.wantTasks(state.Failed)[0]
	replies := h.sentOf("reply")
	if len(replies) != 1 || !strings.HasPrefix(replies[0].text, "half of the answer\n\nInference failed. its runner died") {
		t.Fatalf("replies: %+v", replies)
	}
	wantWords(t, replies[0].raw, "part.txt")
	text, err := os.ReadFile(h.agent.Store.Path(filepath.Join(task.OutputBox, task.Deliverable)))
	if err != nil || strings.TrimSpace(string(text)) != replies[0].text {
		t.Errorf("the deliverable is %q, %v", text, err)
	}
}

// A turn that is stopped while suspended delivers its output.
func TestStoppedSuspendedTurnReturnsItsOutput(t *testing.T) {
	h := newAwakeFixture(t)
	h.playScript("us ask " + peer + " 'which commit?' 10m >/dev/null; echo 'I have asked.'\n")
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	if head := h.state().Turn; head.Status != state.HeadSuspended {
		t.Fatalf("turn: %+v", head)
	}
	s := h.status()
	if s.Turn.WaitingToolCount == nil || *s.Turn.WaitingToolCount != 1 || s.Turn.ResumeBy == nil {
		t.Errorf("status of a suspended turn: %+v", s.Turn)
	}
	check(t, h.agent.Stop(t.Context(), "test"))
	h.wantTasks(state.Canceled)
	h.wantReplies("I have asked.\n\n[canceled: stopped while it waited for other agents]")
}

// A short answer is mail text; a long one is a file, next to its beginning in
// the text.
func TestLongAnswerIsAttached(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.playScript("echo mine >\"$AGENTSTATELOOP_OUTPUT/answer.txt\"; head -c 300000 /dev/zero | tr '\\0' x; echo; echo 'the very end'\n")
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	h.wantTasks(state.Success)
	reply := h.sentOf("reply")[0]
	if !strings.HasPrefix(reply.text, "xxxxxxxx") || !strings.Contains(reply.text, "the full text is in answer-2.txt") {
		t.Errorf("reply of %d bytes: …%s", len(reply.text), reply.text[max(0, len(reply.text)-200):])
	}
	head := h.lines(state.LineTask)[0]
	whole, err := os.ReadFile(h.agent.Store.Path(filepath.Join(head.OutputBox, "answer-2.txt")))
	check(t, err)
	if !strings.HasSuffix(string(whole), "the very end\n") || !strings.Contains(reply.raw, "answer-2.txt") {
		t.Errorf("the whole answer has %d bytes", len(whole))
	}
}

// Unfinished files of a killed process are not attached to the reply.
func TestUnfinishedDeliverableIsNotSent(t *testing.T) {
	h := newAwakeFixture(t)
	h.script(`#!/bin/sh
cat >prompt
cd "$AGENTSTATELOOP_OUTPUT" && touch deliverable.txt.tmp deliverable.fields.json.tmp list.txt.tmp
echo done
`)
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	reply := h.sentOf("reply")[0].raw
	if !strings.Contains(reply, "list.txt.tmp") || strings.Contains(reply, "deliverable.") {
		t.Errorf("the reply:\n%s", reply)
	}
}
