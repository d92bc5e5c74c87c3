package state_test

import (
	"slices"
	"testing"

	"agentstateloop/state"
)

// TestReplayTakesWholeCommitsOnly checks that a commit counts with all its lines or with none of them.
func TestReplayTakesWholeCommitsOnly(t *testing.T) {
	first, begun, ended := state.Line{Serial: 1, Last: true}, state.Line{Serial: 2}, state.Line{Serial: 2, N: 1, Last: true}
	for _, c := range []struct {
		lines []state.Line
		whole int
	}{
		{nil, 0},
		{[]state.Line{first}, 1},
		{[]state.Line{first, begun}, 1},
		{[]state.Line{ended, begun, first}, 3},
		{[]state.Line{begun}, 0},
	} {
		whole, torn := state.Whole(slices.Clone(c.lines))
		if len(whole) != c.whole || len(whole)+len(torn) != len(c.lines) {
			t.Errorf("%v: %v are whole, %v are torn; want %d that are whole", c.lines, whole, torn, c.whole)
		}
	}
}
