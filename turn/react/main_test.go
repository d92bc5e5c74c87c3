package react_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"

	"agentstateloop/turn/box"
)

// TestMain lets this test binary stand in for our own, which exec starts in a sandbox.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == box.Stage {
		err := box.Main(os.Args[2:])
		var exit box.Exit
		if errors.As(err, &exit) {
			os.Exit(int(exit))
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	flag.Set("test.parallel", "8") // the parallel tests wait
	os.Exit(m.Run())
}
