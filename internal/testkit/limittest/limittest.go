// Package limittest tests limits at their edge. Each package lists its limits in a table, and
// TestEveryLimitIsTried in the root folder fails for a constant that is missing from the
// tables.
package limittest

import (
	"testing"
	"time"
)

// Limit is one limit of a package.
type Limit struct {
	// Const is the name of the constant in the source.
	Const string
	// Max is the largest value within the limit. Write it as a number, not as the constant, so
	// that the test notices a changed constant.
	Max int64
	// Step is the distance from Max to its neighbours. The default is 1. A Max in nanoseconds
	// may need a second.
	Step int64
	// Within reports whether n is within the limit, according to the code that the constant
	// limits.
	Within func(t *testing.T, n int64) bool
}

// Run tries each limit one step below Max, at Max, and one step above. The first two must be
// within the limit, and the third must not.
func Run(t *testing.T, limits []Limit) {
	for _, l := range limits {
		t.Run(l.Const, func(t *testing.T) {
			step := max(l.Step, 1)
			for _, n := range []int64{l.Max - step, l.Max, l.Max + step} {
				if got, want := l.Within(t, n), n <= l.Max; got != want {
					t.Errorf("%s: %d is within the limit: %v, want %v", l.Const, n, got, want)
				}
			}
		})
	}
}

// Duration returns a limit of time. The neighbours of longest are one step away.
func Duration(name string, longest, step time.Duration, within func(t *testing.T, d time.Duration) bool) Limit {
	return Limit{Const: name, Max: int64(longest), Step: int64(step), Within: func(t *testing.T, n int64) bool {
		return within(t, time.Duration(n))
	}}
}

// Pauses checks a sequence of pauses that are shortened at random by up to half. longest are
// the full pauses.
func Pauses(t *testing.T, next func() time.Duration, longest ...time.Duration) {
	t.Helper()
	for i, d := range longest {
		if got := next(); got < d/2 || got > d {
			t.Errorf("pause %d is %v, want %v or at most half of it less", i+1, got, d)
		}
	}
}
