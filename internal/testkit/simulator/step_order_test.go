package simulator_test

import (
	"testing"

	"agentstateloop/internal/testkit/simulator"
	"agentstateloop/internal/testkit/statetest"
	"agentstateloop/state"
)

// TestFreeRulesCommuteInStories checks that in the steps of whole stories the order of the
// rules of a group does not matter where their After leaves it open.
func TestFreeRulesCommuteInStories(t *testing.T) {
	const steps = 30 // of a story
	stories := part(200, 4)
	checked := statetest.CheckOrders(t, func(step state.StepFunc) {
		for seed := range stories {
			story := simulator.Make(seed+1, steps)
			story.StepState = step
			play(t, story)
		}
	})
	if int64(checked) < 20*stories {
		t.Errorf("only %d steps", checked)
	}
	t.Logf("%d steps", checked)
}
