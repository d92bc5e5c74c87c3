package cycle_test

import (
	"context"
	"reflect"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/mesh"
	"agentstateloop/turn"
)

// The actions that an ACP agent may take without asking depend on the cause of its turn. It asks
// the operator only in the operator's turns and in turns planned there.
func TestACPGrantsByCause(t *testing.T) {
	h := newAwakeFixture(t)
	h.agent.Kinds = cycle.Kinds{Operator: []string{"edit"}, Peer: []string{"read"}, Self: []string{"search"}}
	h.agent.Policy.Ack = false
	runner := *h.agent.Turn
	runner.Runner, runner.Command = turn.ACP, []string{"x"}
	h.agent.Turn = &runner
	var got []turn.ACPGrants
	h.agent.RunTurn = func(ctx context.Context, at turn.Attempt) (turn.Result, error) {
		got = append(got, at.Grants)
		if len(got) == 1 {
			in := cycle.Inside{TurnID: at.TurnID, Epoch: at.Epoch}
			if _, err := h.agent.Remind(ctx, in, "20m", "look again"); err != nil {
				t.Error(err)
			}
		}
		return turn.Result{Status: turn.Success, Exit: turn.ExitClean, Text: "done"}, nil
	}
	h.receive(letter{id: "<one@example.com>", body: "work"})
	h.poll()
	h.post(mesh.Message{ID: "q1", Text: "you could try"})
	h.pollAfter(time.Minute)
	h.clock.advance(25 * time.Minute)
	h.poll()
	want := []turn.ACPGrants{{Kinds: []string{"edit"}, Ask: true}, {Kinds: []string{"read"}}, {Kinds: []string{"search"}, Ask: true}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	runner.Runner = turn.Exec // which has no such rights
	h.receive(letter{id: "<two@example.com>", body: "more"})
	h.pollAfter(time.Minute)
	if last := got[len(got)-1]; !reflect.DeepEqual(last, turn.ACPGrants{}) {
		t.Errorf("another runner got %+v", last)
	}
}
