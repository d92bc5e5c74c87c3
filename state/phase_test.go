package state

import (
	"testing"
)

// TestParsePhase parses what a person may type.
func TestParsePhase(t *testing.T) {
	for _, typed := range []string{"IDLE", "idle", "Prep", "ACTIVE"} {
		if p, err := ParsePhase(typed); err != nil || p == "" {
			t.Errorf("%s: %v, %v", typed, p, err)
		}
	}
	for _, typed := range []string{"", "IDLE ", "SLEEP"} {
		if p, err := ParsePhase(typed); err == nil {
			t.Errorf("%q is %v", typed, p)
		}
	}
}
