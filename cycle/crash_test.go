package cycle_test

import (
	"os"
	"sync/atomic"

	"agentstateloop/state"
)

// dieAt is a hook with which the process is gone at the nth step that touches
// the disk, as after a SIGKILL.
func dieAt(n int) state.Hook {
	var steps atomic.Int64
	return func(string, string) error {
		if int(steps.Add(1)) == n {
			os.Exit(exitDied)
		}
		return nil
	}
}
