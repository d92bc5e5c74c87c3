package react_test

import (
	"fmt"
	"net"
	"os"
	"testing"

	"agentstateloop/turn/react"
)

// TestMain lets this test binary stand in for our own, which exec starts as Self,
// and for a program that opens a connection: `__dial NETWORK ADDRESS`.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "__dial" {
		if _, err := net.Dial(os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) > 1 && os.Args[1] == react.ConfinedCommand {
		fmt.Fprintln(os.Stderr, react.Confine(os.Args[2:]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}
