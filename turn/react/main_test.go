package react_test

import (
	"fmt"
	"os"
	"testing"

	"agentstateloop/turn/react"
)

// TestMain lets this test binary stand in for our own: exec starts Self.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == react.ConfinedCommand {
		fmt.Fprintln(os.Stderr, react.Confine(os.Args[2:]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}
