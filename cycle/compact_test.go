package cycle_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// fillingScript is a fake claude whose session holds as many tokens as the file
// "context" says. It answers a question for a summary with the file "summary".
const fillingScript = `
init s$(grep -vc resume argv)
if grep -q '^Goal:' prompt; then
	cp prompt asked
	answer "$(cat summary)"
	exit
fi
cp prompt told
echo "{\"type\":\"assistant\",\"message\":{\"content\":[],\"usage\":{\"input_tokens\":$(cat context),\"cache_read_input_tokens\":1000}}}"
answer hello
`

// sayByMail has a mail of the operator answered.
func (h *fixture) sayByMail(text string) {
	h.t.Helper()
	h.receive(letter{id: "<" + store.NewID() + "@example.com>", body: text})
	h.pollAfter(time.Minute)
}

// An agent whose session fills three quarters of its window is warned. A nearly full session is
// replaced by its summary, with which the next session begins.
func TestFullSessionIsCompacted(t *testing.T) {
	t.Parallel()
	h := newClaudeFixture(t, fillingScript)
	h.write("summary", "the parser is half done </summary>")
	h.write("context", "100000")
	h.sayByMail("one")
	h.write("context", "151000")
	h.sayByMail("two")
	wantNoWords(t, h.workFile("told"), "this session fills")
	h.write("context", "184000")
	h.sayByMail("three")
	wantWords(t, h.workFile("told"), "this session fills 76 % of the model's context window")
	h.write("context", "1000")
	h.sayByMail("four")
	h.wantSessions("- s1 s1 s1 -") // the last but one was asked for the summary
	wantWords(t, h.workFile("told"), "Summary of the earlier conversation:\n<summary #>\nthe parser is half done <\\/summary>\n</summary #>", "four", "You are @")
	wantNoWords(t, h.workFile("told"), "<history ", "three", "this session fills")
	wantNoWords(t, h.workFile("asked"), "<history ", "four")
	h.wantTasks(state.Success, state.Success, state.Success, state.Success)
	lines := h.lines(state.LineCompaction)
	if len(lines) != 1 || !strings.HasPrefix(lines[0].Text, "the parser") || lines[0].Epoch != 3 {
		t.Errorf("history: %+v", lines)
	}
	h.sayByMail("five")
	h.wantSessions("- s1 s1 s1 - s2")
	check(t, h.agent.Reset(t.Context(), "", handle))
	h.sayByMail("six")
	wantNoWords(t, h.workFile("told"), "the parser is half done")
}

// An empty summary changes nothing, and after two of them no further summary is requested.
func TestEmptySummaryKeepsSession(t *testing.T) {
	t.Parallel()
	h := newClaudeFixture(t, fillingScript)
	h.write("summary", " ")
	h.write("context", "195000")
	for _, text := range []string{"one", "two", "three", "four"} {
		h.sayByMail(text)
	}
	h.wantSessions("- s1 s1 s1 s1 s1")
	wantWords(t, h.workFile("told"), "this session fills 98 %", "four")
	lines := h.lines(state.LineCompaction)
	if len(lines) != 2 || lines[0].What != state.WordNoSummary || lines[0].Reason == "" {
		t.Errorf("history: %+v", lines)
	}
	if s := h.state(); s.Compacted.File != "" || s.Session.ID != "s1" {
		t.Errorf("state: %+v, %+v", s.Compacted, s.Session)
	}
	h.write("summary", "now there is one")
	text, err := h.agent.Compact(t.Context(), 0)
	if err != nil || text != "now there is one" || h.state().Session.ID != "" {
		t.Errorf("by hand: %q, %v", text, err)
	}
}

// If a summary uses up the budget, the message waits instead of having an unpaid turn.
func TestSummaryUsesUpBudget(t *testing.T) {
	h := newClaudeFixture(t, fillingScript)
	h.agent.Policy.Budget = state.Budget{HasCredit: true, Credit: 20_000}
	h.write("summary", "the parser is half done")
	h.write("context", "195000")
	h.sayByMail("one")
	h.sayByMail("two")
	h.wantSessions("- s1")
	h.wantTasks(state.Success)
	s := h.state()
	if len(s.Inbox) != 1 || s.Inbox[0].Status != state.Queued || s.Inbox[0].Attempts != 0 {
		t.Errorf("inbox: %+v", s.Inbox)
	}
	h.pollAfter(time.Minute)
	h.wantSessions("- s1")
	_, err := h.agent.Credit(t.Context(), state.Dollar, "me")
	check(t, err)
	h.write("context", "1000")
	h.pollAfter(time.Minute)
	h.wantSessions("- s1 -")
	h.wantTasks(state.Success, state.Success)
	wantWords(t, h.workFile("told"), "the parser is half done", "two")
}

// newSummaryFixture gives an exec agent a program that makes summaries; its standard
// input is kept in "asked".
func newSummaryFixture(t *testing.T, said ...string) (h *fixture, stdin *string) {
	t.Helper()
	h, stdin = newRecallFixture(t, said...)
	h.agent.Summary = h.summarizeWith("cat >asked; echo 'all was well'\n")
	return h, stdin
}

func (h *fixture) summarizeWith(script string) *turn.Config {
	h.t.Helper()
	h.script("#!/bin/sh\n" + script)
	config := *h.agent.Turn
	hears := h.agent.RunTurn
	h.agent.RunTurn = func(ctx context.Context, at turn.Attempt) (turn.Result, error) {
		if at.TurnID == "compact" {
			return config.Run(ctx, at, nil)
		}
		return hears(ctx, at)
	}
	return &config
}

// A summary by hand replaces the recalled exchanges of an agent without sessions. The history
// keeps everything.
func TestCompactByHand(t *testing.T) {
	h, stdin := newSummaryFixture(t, "the red door", "the blue door")
	text, err := h.agent.Compact(t.Context(), 0)
	if err != nil || text != "all was well" {
		t.Fatalf("%q, %v", text, err)
	}
	wantWords(t, h.workFile("asked"), "Goal:", "<history #>", "the red door", "the blue door")
	h.say("and the green one?", time.Minute)
	wantWords(t, *stdin, "<summary #>\nall was well\n</summary #>")
	wantNoWords(t, *stdin, "red door", "blue door", "Earlier conversation")
	found, err := h.agent.SearchHistory("red", 1)
	check(t, err)
	wantWords(t, found, "the red door")

	h.agent.Summary = h.summarizeWith("cat >asked; echo 'the second'\n")
	_, err = h.agent.Compact(t.Context(), 0)
	check(t, err)
	wantWords(t, h.workFile("asked"), "<summary #>\nall was well\n</summary #>", "the green one")
	wantNoWords(t, h.workFile("asked"), "the red door")
	if _, err := h.agent.Compact(t.Context(), 0); !errors.Is(err, cycle.ErrNothing) {
		t.Errorf("with nothing said since: %v", err)
	}

	// If the summary is lost, what it stands for is shown again.
	check(t, os.Remove(h.agent.Store.Path(h.state().Compacted.File)))
	h.say("what was that?", time.Minute)
	wantWords(t, *stdin, "the red door", "the green one")
}

// A failed compaction changes nothing: the program fails or prints nothing, the commit fails, or
// the memory is reset meanwhile. It is busy while a turn runs.
func TestFailedCompactionChangesNothing(t *testing.T) {
	h, stdin := newSummaryFixture(t, "the red door")
	want := func(why, err string) {
		t.Helper()
		if _, got := h.agent.Compact(t.Context(), 0); got == nil || !strings.Contains(got.Error(), err) {
			t.Errorf("%s: %v", why, got)
		}
		if s := h.state(); s.Compacted.File != "" {
			t.Errorf("%s: %+v", why, s.Compacted)
		}
	}
	made := h.agent.Summary
	h.agent.Summary = h.summarizeWith("echo half; exit 3\n")
	want("it fails", "exit status 3")
	h.agent.Summary = h.summarizeWith("cat >asked\n")
	want("it says nothing", "without an answer")
	h.agent.Summary = nil
	want("there is none", "set one in [turn]")
	h.agent.Summary = made
	h.script("#!/bin/sh\ncat >asked; echo 'all was well'\n")
	h.agent.Store.Hook = func(step, path string) error {
		if step == "rename" && filepath.Base(path) == "state.json" {
			return errors.New("the disk is gone")
		}
		return nil
	}
	want("the commit fails", "the disk is gone")
	h.agent.Store.Hook = nil

	lock, err := h.agent.Store.TryLock(store.TurnLock)
	check(t, err)
	if _, err := h.agent.Compact(t.Context(), 0); !errors.Is(err, cycle.ErrBusy) {
		t.Errorf("during a turn: %v", err)
	}
	check(t, lock.Unlock())

	h.halt()
	want("it is halted", "HALTED")
	h.resume()

	h.say("still there?", time.Minute)
	wantWords(t, *stdin, "the red door")
	h.agent.RunTurn = func(ctx context.Context, at turn.Attempt) (turn.Result, error) {
		check(t, h.agent.Reset(ctx, "", handle))
		return turn.Result{Status: turn.Success, Text: "from before the reset"}, nil
	}
	want("a reset meanwhile", "was reset")
}

// The summary agent of a killed runner is ended before the next turn.
func TestSummaryAgentIsEnded(t *testing.T) {
	h := newAwakeFixture(t)
	h.script("#!/bin/sh\necho up >up; exec sleep 300\n")
	up, _ := h.pipe("up")
	dir := h.agent.Store.Path(summaryDir)
	check(t, turn.Prepare(dir, nil, ""))
	runner := h.poller(h.blueprintFile(), "summarise")
	check(t, runner.Start())
	up()
	check(t, runner.Process.Kill())
	runner.Wait() // its error is that it was killed
	if held, _, err := turn.Probe(dir); err != nil || !held {
		t.Fatalf("the orphan: held %v, %v; the test needs one that lives", held, err)
	}
	alive, err := os.Open(filepath.Join(dir, "alive"))
	check(t, err)
	defer alive.Close()
	h.script(answeringScript)
	h.say("hello", time.Minute)
	h.wantTasks(state.Success)
	if err := syscall.Flock(int(alive.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); err != nil {
		t.Errorf("the orphan lives on: %v", err)
	}
}
