package turn

import (
	"math"
	"testing"
)

// TestUsageBelieved checks that no figure of an agent is negative, or so large that
// the sum of a few overflows.
func TestUsageBelieved(t *testing.T) {
	var b Bill
	agent{}.add(&b, Event{Kind: Done, CostUSD: -1, Usage: Usage{Input: math.MinInt64, Output: math.MaxInt64, CacheRead: -1, CacheWrite: 7}})
	if want := (Usage{Output: maxUsage, CacheWrite: 7}); b.Usage != want {
		t.Errorf("%+v, want %+v", b.Usage, want)
	}
}
