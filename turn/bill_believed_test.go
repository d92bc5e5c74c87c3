package turn

import (
	"math"
	"testing"
)

// TestUsageIsClamped checks that no figure of an agent is negative, or so large that
// the sum of a few overflows.
func TestUsageIsClamped(t *testing.T) {
	var b Bill
	agent{}.add(&b, Event{Kind: Done, CostUSD: -1, Usage: Usage{Input: math.MinInt64, Output: math.MaxInt64, CacheRead: -1, CacheWrite: 7}})
	if want := (Usage{Output: maxUsage, CacheWrite: 7}); b.Usage != want {
		t.Errorf("%+v, want %+v", b.Usage, want)
	}
}

// TestLastModelCounts checks that the bill has the model that an agent names last.
func TestLastModelCounts(t *testing.T) {
	b := agent{}.openBill([]string{"claude", "--model", "asked"})
	for _, c := range []struct {
		event Event
		want  string
	}{
		{Event{Kind: SessionStart}, "asked"}, {Event{Kind: SessionStart, Model: "begun"}, "begun"},
		{Event{Kind: Done}, "begun"}, {Event{Kind: Done, Model: "ended"}, "ended"},
	} {
		if (agent{}).add(&b, c.event); b.Model != c.want {
			t.Errorf("after %+v the model is %s, want %s", c.event, b.Model, c.want)
		}
	}
}
