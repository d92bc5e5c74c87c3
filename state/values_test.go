package state

import (
	"strings"
	"testing"
	"time"
)

func TestBackoff(t *testing.T) {
	want := []time.Duration{1, 1, 2, 4, 8, 16, 32, 60, 60}
	for failures, minutes := range want {
		if got := backoff(failures); got != minutes*time.Minute {
			t.Errorf("after %d failures: %v, want %v", failures, got, minutes*time.Minute)
		}
	}
	if got := backoff(1 << 40); got != time.Hour {
		t.Errorf("after very many: %v", got)
	}
}

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

func TestValidHandle(t *testing.T) {
	for s, want := range map[string]bool{
		"goulard3120": true, "a": true, "0": true, "a-b-": true, strings.Repeat("x", 32): true,
		"": false, "-a": false, "A": false, "a_b": false, "a b": false, "a\n": false, "é": false, "@a": false,
		strings.Repeat("x", 33): false,
	} {
		if ValidHandle(s) != want {
			t.Errorf("ValidHandle(%q) = %v", s, !want)
		}
	}
}
