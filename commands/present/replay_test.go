package present

import (
	"testing"
	"time"

	"agentstateloop/cycle/replay"
	"agentstateloop/state"
)

// A figure of a replay says where it comes from.
func TestReplayedFigure(t *testing.T) {
	for want, f := range map[string]replay.Figure{
		"a turn takes 1m and costs $1.00 (default)":                                   {},
		"a turn takes 1m and costs $1.00 (median of 1 turn)":                          {Turns: 1},
		"a turn takes 1m and costs $1.00 (median of 9 turns with opus)":               {Turns: 9, Model: "opus"},
		"a turn takes 1m (--turn-time) and costs $1.00 (median of 9 turns with opus)": {Turns: 9, Model: "opus", TimeFixed: true},
		"a turn takes 1m (median of 9 turns with opus) and costs $1.00 (--turn-cost)": {Turns: 9, Model: "opus", CostFixed: true},
		"a turn takes 1m (--turn-time) and costs $1.00 (--turn-cost)":                 {Turns: 9, TimeFixed: true, CostFixed: true},
	} {
		f.Time, f.Cost = time.Minute, state.Dollar
		if got := replayedFigure(f); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
