package state

import (
	"strings"
	"testing"
)

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
