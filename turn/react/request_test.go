package react_test

import (
	"context"
	"testing"

	"agentstateloop/internal/testkit/scripted"
	"agentstateloop/turn/react"
)

// Check is called before each request, including a retry and a request after a summary.
func TestCheckBeforeEachRequest(t *testing.T) {
	eachAPI(t, func(t *testing.T, api string) {
		for name, replies := range map[string][]scripted.Reply{
			"again":   {{Status: 500, Fault: "oops"}, {Text: "never asked"}},
			"summary": {{Calls: []scripted.Call{notch("c1", "here")}, In: 950_000}, {Text: "Goal: none."}, {Text: "never asked"}},
		} {
			b := newFixture(t, api, replies...)
			b.Window = 1_000_000
			b.Check = func(context.Context) (react.CheckResult, error) {
				if len(b.server.Asked()) == len(replies)-1 {
					return react.CheckResult{Over: "the budget is used up"}, nil
				}
				return react.CheckResult{}, nil
			}
			if err := b.run("hello", false); err != nil {
				t.Fatal(name, err)
			}
			if d := b.done(); d.Cut != "the budget is used up" {
				t.Errorf("%s: %+v", name, d)
			}
			if n := len(b.server.Asked()); n != len(replies)-1 {
				t.Errorf("%s: %d requests", name, n)
			}
		}
	})
}
