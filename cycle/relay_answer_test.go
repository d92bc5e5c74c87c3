package cycle

import (
	"context"
	"errors"
	"testing"

	"agentstateloop/internal/secret"
	"agentstateloop/turn/relay"
)

// An error in a sandbox has its hint, kind and exit code, and no secret that only the runner
// knows.
func TestRelayErrors(t *testing.T) {
	secrets := new(secret.Known)
	secrets.Learn("the mesh token", "hunter2-and-more")
	var text string
	var failure error
	l := launcher{
		relay: func(context.Context, Inside, relay.Request) (string, error) { return text, failure },
		explain: func(err error) (string, string, int) {
			return "try hunter2-and-more, not " + err.Error(), "source_failed", 3
		},
	}
	answer := func() relay.Answer { return l.answer(t.Context(), secrets, Inside{}, relay.Request{}) }

	text = "found hunter2-and-more"
	if a := answer(); a != (relay.Answer{Text: "found ***"}) {
		t.Errorf("%+v", a)
	}
	failure = errors.New("the mesh said hunter2-and-more")
	if a := answer(); a != (relay.Answer{Error: "the mesh said ***", Hint: "try ***, not the mesh said ***", Kind: "source_failed", Code: 3}) {
		t.Errorf("%+v", a)
	}
	l.explain = nil
	if a := answer(); a != (relay.Answer{Error: "the mesh said ***"}) {
		t.Errorf("%+v", a)
	}
}
