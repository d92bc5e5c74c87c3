package box_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"agentstateloop/turn/box"
)

// TestMain makes this test binary stand in for our own program in the stages of a sandbox, and for the
// programs that helpers lists.
func TestMain(m *testing.M) {
	if len(os.Args) < 2 {
		os.Exit(m.Run())
	}
	main, ok := helpers()[os.Args[1]]
	if os.Args[1] == box.Stage {
		main, ok = box.Main, true
	}
	if !ok {
		os.Exit(m.Run())
	}
	err := main(os.Args[2:])
	if exit, ok := errors.AsType[box.Exit](err); ok {
		os.Exit(int(exit))
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}
