package cycle_test

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/turn"
)

// bash is a request to run a command.
func bash(command string) turn.ToolRequest {
	input, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		panic(err)
	}
	return turn.ClaudeRequest("Bash", input)
}

// TestPermissions has turns ask for permission. An allowed action is permitted once; a refused or
// unanswered one is denied. One question is open at a time, and a turn of another agent asks
// nothing.
func TestPermissions(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.agent.Policy.Ack = false
	runner := *h.agent.Turn
	runner.Runner = turn.Claude
	h.agent.Turn = &runner
	var asks, decided []string
	h.agent.RunTurn = func(ctx context.Context, at turn.Attempt) (turn.Result, error) {
		in := cycle.Inside{TurnID: at.TurnID, Epoch: at.Epoch}
		for _, command := range asks {
			p, err := h.agent.Permit(ctx, in, bash(command))
			check(t, err)
			decided = append(decided, command+" "+p.Decision)
		}
		if h.state().Turn.AsksPermission() { // claude gives up
			return turn.Result{Status: turn.Failed, Exit: turn.ExitError, ExitCode: 1, Reason: "error_during_execution", Worked: true}, nil
		}
		return turn.Result{Status: turn.Success, Exit: turn.ExitClean, Text: "done"}, nil
	}
	attempt := func(commands ...string) []string {
		asks, decided = commands, nil
		h.pollAfter(time.Minute)
		return decided
	}
	want := func(got []string, want ...string) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}

	h.receive(letter{id: "<one@example.com>", body: "make room"})
	want(attempt("ls", "rm", "ls"), "ls asked", "rm asked", "ls asked")
	questions := h.sentOf("question")
	if len(questions) != 1 || !strings.Contains(questions[0].raw, "May the agent run a command (execute)?") {
		t.Fatalf("asked: %+v", questions)
	}
	h.wantTasks()
	h.receive(replyTo(questions[0], "allow"))
	want(attempt("ls -l", "ls"), "ls -l asked", "ls asked")
	h.receive(replyTo(h.sentOf("question")[1], "refuse"))
	want(attempt("ls -l", "ls", "ls"), "ls -l denied", "ls used", "ls asked")
	h.receive(replyTo(h.sentOf("question")[2], "what for?")) // which allows nothing
	want(attempt("ls", "pwd"), "ls denied", "pwd asked")
	h.clock.advance(25 * time.Hour) // nobody answers
	want(attempt("pwd"), "pwd denied")
	h.wantTasks(state.Success)

	h.receive(letter{id: "<two@example.com>", body: "ask me"})
	asksPerson := func(ctx context.Context, at turn.Attempt) (turn.Result, error) {
		p, err := h.agent.Permit(ctx, cycle.Inside{TurnID: at.TurnID, Epoch: at.Epoch}, turn.ClaudeRequest(turn.ClaudeAsks, json.RawMessage(`{"questions":[]}`)))
		check(t, err)
		if p.Decision != turn.PermissionRefused || !strings.Contains(p.Why, "ask_operator") {
			t.Errorf("%+v", p)
		}
		return turn.Result{Status: turn.Success, Exit: turn.ExitClean, Text: "done"}, nil
	}
	usual := h.agent.RunTurn
	h.agent.RunTurn = asksPerson
	h.pollAfter(time.Minute)
	h.agent.RunTurn = usual

	h.post(mesh.Message{ID: "q1", Text: "you could try"})
	want(attempt("pwd"), "pwd refused")
	if n := len(h.sentOf("question")); n != 4 {
		t.Errorf("%d questions", n)
	}
	h.wantTasks(state.Success, state.Success, state.Success)
}
