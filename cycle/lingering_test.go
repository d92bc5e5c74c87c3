package cycle_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/state"
	"agentstateloop/turn"
)

// restingScript is an agent that answers, and whose process lives until there is a file
// "go". It leaves a file with its answer and one after it.
const restingScript = `#!/bin/sh
cat >prompt; echo ran >>ran
touch "$AGENTSTATELOOP_OUTPUT/early"
echo '{"type":"system","subtype":"init","session_id":"s-1","model":"claude-opus-4-1"}'
echo '{"type":"result","subtype":"success","is_error":false,"result":"The answer.","session_id":"s-1","total_cost_usd":0.25}'
while [ ! -e go ]; do sleep 0.02; done
touch "$AGENTSTATELOOP_OUTPUT/late"
echo '{"type":"result","subtype":"success","is_error":false,"result":"Too late.","session_id":"s-1","total_cost_usd":0.75}'
`

// newRestingFixture builds a fixture whose agent lingers after its answer.
func newRestingFixture(t *testing.T) *fixture {
	h := newAwakeFixture(t)
	h.agent.Turn.Runner, h.agent.Turn.Settle, h.agent.Turn.Linger = turn.Claude, time.Millisecond, time.Minute
	h.script(restingScript)
	return h
}

// pollUntilAnswer polls in the background. It returns when the answer is out and the agent
// lives on.
func (h *fixture) pollUntilAnswer() (polled <-chan pollResult) {
	h.t.Helper()
	polled = pollOf(h.t.Context(), h.agent, cycle.PollOptions{})
	until(h.t, "the answer", func() bool {
		if len(polled) > 0 {
			h.t.Fatalf("the poll ended before the answer: %+v", <-polled)
		}
		return len(h.sentOf("reply")) > 0
	})
	return polled
}

// pollBeside polls while another poll of this agent has a turn. That poll holds
// cycle.lock until what it sent is committed.
func (h *fixture) pollBeside() cycle.Report {
	h.t.Helper()
	for {
		r, err := h.agent.Poll(h.t.Context(), cycle.PollOptions{})
		if !errors.Is(err, cycle.ErrBusy) {
			check(h.t, err)
			return r
		}
		time.Sleep(5 * time.Millisecond) // a lock tells nobody that it is free
	}
}

// The answer is sent when the agent is done. Its process may live on; the next turn waits for its
// end. Its later work costs money and has no other effect.
func TestAnswerIsSentBeforeAgentExits(t *testing.T) {
	h := newRestingFixture(t)
	h.receive(letter{id: "<one@example.com>"})
	polled := h.pollUntilAnswer()
	s := h.state()
	if !s.Turn.Lingering() || len(s.Inbox) != 0 {
		t.Fatalf("turn %+v, inbox %+v", s.Turn, s.Inbox)
	}
	st := h.status()
	if st.Turn.Status != state.HeadIdle || st.Turn.ID == nil || *st.Turn.Lifecycle != "idle" || st.Turn.Reason != nil {
		t.Errorf("status: %+v", st.Turn)
	}
	reply := h.sentOf("reply")[0]
	if !strings.Contains(reply.text, "The answer.") || !strings.Contains(reply.raw, "early") {
		t.Errorf("the reply:\n%s", reply.raw)
	}

	// Another mail is collected, and not run.
	h.receive(letter{id: "<two@example.com>", body: "and you?"})
	r := h.pollBeside()
	if r.Arrived != 1 || r.Turns != 0 || strings.Count(h.workFile("ran"), "ran") != 1 {
		t.Errorf("%+v, ran %s", r, h.workFile("ran"))
	}
	h.write("go", "")
	if r := <-polled; r.report.Turns != 2 {
		t.Errorf("%+v", r)
	}
	if s := h.state(); s.Turn.Status != state.HeadIdle || s.Turn.Lingering() || len(s.Inbox) != 0 {
		t.Errorf("turn %+v, inbox %+v", s.Turn, s.Inbox)
	}
	var spent, exited []string
	for _, l := range h.lines(state.LineSpend) {
		spent = append(spent, l.Spending.Cost.String()+" for "+l.From)
	}
	for _, l := range h.lines(state.LineTurn) {
		if l.What == "exited" {
			exited = append(exited, l.Reason)
		}
	}
	if spent[0] != "$0.75 for "+operator || exited[0] != "clean exit" {
		t.Errorf("spent %q, exited %q", spent, exited)
	}
	if first := h.sentOf("reply")[0].raw; strings.Contains(first, "Too late") || strings.Contains(first, `"late"`) {
		t.Errorf("what came after the answer was sent:\n%s", first)
	}
}

// errDies ends a runner in a test.
var errDies = errors.New("the runner dies")

// A runner that dies while its agent lingers leaves the agent to the watchdog, and
// the next turn to the next poll. The answer is not repeated.
func TestLingeringAgentOutlivesRunner(t *testing.T) {
	h := newRestingFixture(t)
	h.agent.RunTurn = func(ctx context.Context, at turn.Attempt) (turn.Result, error) {
		r, err := h.agent.Turn.Answer(context.WithoutCancel(ctx), at, nil) // nobody cancels what a killed runner began
		rest := r.Rest
		r.Rest = func() turn.Result { go rest(); panic(errDies) }
		return r, err
	}
	h.receive(letter{id: "<one@example.com>"})
	func() {
		defer func() {
			if x := recover(); x != errDies {
				t.Fatalf("the runner did not die: %v", x)
			}
		}()
		h.agent.Poll(t.Context(), cycle.PollOptions{})
	}()
	head := h.state().Turn
	if !head.Lingering() || len(h.sentOf("reply")) != 1 {
		t.Fatalf("%+v, sent %d", head, len(h.sentOf("reply")))
	}
	dir := filepath.Join(h.agent.Store.Dir, "turns", head.TurnID, "1")
	if held, _, _ := turn.Probe(dir); !held {
		t.Fatal("the agent does not live")
	}
	h.agent.RunTurn = nil
	h.poll()
	if held, _, _ := turn.Probe(dir); held {
		t.Error("the orphan lives")
	}
	if s := h.state(); s.Turn.Lingering() || len(h.sentOf("reply")) != 1 {
		t.Errorf("%+v, sent %d", s.Turn, len(h.sentOf("reply")))
	}
}

// HALT and stop end an agent that lingers.
func TestHaltEndsLingeringAgent(t *testing.T) {
	t.Parallel()
	h := newRestingFixture(t)
	h.receive(letter{id: "<one@example.com>"})
	polled := h.pollUntilAnswer()
	h.halt()
	<-polled
	if s := h.state(); s.Turn.Lingering() || s.Turn.Stop != "" || len(h.lines(state.LineTask)) != 1 {
		t.Errorf("%+v", s.Turn)
	}
	if l := h.lines(state.LineTask)[0]; l.Outcome != state.Success {
		t.Errorf("%+v", l)
	}
}
