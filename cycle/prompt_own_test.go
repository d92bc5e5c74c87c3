package cycle_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/state"
	"agentstateloop/turn"
)

// A prompt of the clock may have its own session, arguments and folder. The conversation then
// continues with its session.
func TestClockPromptWithOwnSession(t *testing.T) {
	t.Parallel()
	h := newClaudeFixture(t, `
case "$*" in *--resume*) ;; *--model*) init p1; answer report; exit;; esac
init s1; answer hello
`)
	folder := t.TempDir()
	h.agent.ClockPrompts = []cycle.ClockPrompt{{
		Name: "morning", Text: "Report.", Kind: state.KindAlways,
		Fresh: true, Args: []string{"--model", "haiku"}, Runner: turn.Claude,
	}, {
		Name: "elsewhere", Text: "Report.", Kind: state.KindAlways, Fresh: true, Workdir: folder,
	}}
	h.agent.Policy.Prompts = []state.PromptPolicy{{Name: "morning", Next: neverDue}, {Name: "elsewhere", Next: neverDue}}
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	for _, name := range []string{"morning", "elsewhere"} {
		_, err := h.agent.RunPrompt(t.Context(), name)
		check(t, err)
		h.pollAfter(time.Minute)
	}
	h.receive(letter{id: "<two@example.com>"})
	h.pollAfter(time.Minute)
	h.wantSessions("- - s1")
	if there, err := os.ReadFile(filepath.Join(folder, "argv")); err != nil || strings.Contains(string(there), "--resume") {
		t.Errorf("in the other folder: %q, %v", there, err)
	}
	h.wantTasks(state.Success, state.Success, state.Success, state.Success)
	if args := strings.Split(h.workFile("argv"), "\n"); !strings.Contains(args[1], "--model haiku") || strings.Contains(args[0]+args[len(args)-1], "haiku") {
		t.Errorf("arguments: %q", args)
	}
}

// neverDue is when a prompt has its time that only a person runs.
func neverDue(time.Time, *time.Location) time.Time { return time.Time{} }
