// Package boot has the clock that no person and no time server sets: it runs from the start of the
// machine, and also while the machine sleeps.
package boot

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now returns the time since the machine started. It can be compared only with times of the same
// boot: see [ID].
func Now() (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0, err
	}
	return time.Duration(t.Nano()), nil
}
