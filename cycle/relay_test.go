package cycle_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/turn"
	"agentstateloop/turn/relay"
)

// A sandboxed agent sends its commands to its runner. It can run its own commands in its own turn
// only.
func TestRelayCommands(t *testing.T) {
	h := newAwakeFixture(t)
	h.agent.RunTurn = func(ctx context.Context, at turn.Attempt) (turn.Result, error) {
		in := cycle.Inside{TurnID: at.TurnID, Epoch: at.Epoch}
		do := func(in cycle.Inside, r relay.Request) error {
			_, err := h.agent.Relay(ctx, in, r)
			return err
		}
		for name, r := range map[string]relay.Request{
			"no verb":         {},
			"a control":       {Verb: "halt"},
			"another command": {Verb: "inbox"},
			"in other case":   {Verb: "Submit", Text: "x"},
			"no handle":       {Verb: relay.Ask, Text: "x"},
			"a path":          {Verb: relay.Send, To: "../../x", Text: "x"},
			"no question":     {Verb: relay.AskOperator, Text: " "},
			"no text":         {Verb: relay.Ask, To: "dorlange3120", Text: " \n"},
			"itself":          {Verb: relay.Send, To: handle, Text: "x"},
			"no words":        {Verb: relay.Search},
		} {
			if err := do(in, r); err == nil {
				t.Errorf("%s: it was done", name)
			}
		}
		for _, stale := range []cycle.Inside{{TurnID: at.TurnID, Epoch: at.Epoch + 1}, {TurnID: "another", Epoch: at.Epoch}, {}} {
			if err := do(stale, relay.Request{Verb: relay.Submit, Text: "x"}); !errors.Is(err, cycle.ErrStale) {
				t.Errorf("%+v: %v", stale, err)
			}
		}
		check(t, do(in, relay.Request{Verb: relay.Sleep, For: -time.Hour}))
		check(t, do(in, relay.Request{Verb: relay.Remember, Text: "a lighthouse"}))
		check(t, do(in, relay.Request{Verb: relay.Submit, Text: "all of it", Fields: []relay.Field{{Name: "verdict", Text: "green"}}}))
		if err := do(in, relay.Request{Verb: relay.Submit, Text: "again"}); !errors.Is(err, cycle.ErrSubmitted) {
			t.Errorf("a second deliverable: %v", err)
		}
		return turn.Result{Status: turn.Success, Exit: turn.ExitClean, Text: "printed"}, nil
	}
	h.sayByMail("hello")
	h.wantReplies("verdict: green\n\nall of it")
}
