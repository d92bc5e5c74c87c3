package limittest

import (
	"testing"
	"time"
)

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
