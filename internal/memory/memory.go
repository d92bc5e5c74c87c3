// Package memory limits the memory of a process. It is a second line of defense: code that
// reads foreign input has its own limits.
package memory

import (
	"runtime"
	"runtime/debug"
	"time"

	"agentstateloop/internal/secret"
)

// checkInterval is how often Guard checks the memory. A check costs some microseconds.
const checkInterval = 50 * time.Millisecond

// Guard calls f in its own goroutine and waits for it. It returns false at once when the
// process holds more than limit bytes of memory. f then continues, so the caller must end the
// process. The crash report of f contains no secrets.
//
// The garbage collector stays below half of the limit as long as it can. A limit of the
// operating system would be inherited by the programs that f starts; this one is not.
func Guard(limit uint64, secrets *secret.Known, f func()) (within bool) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(int64(limit / 2)))
	done := make(chan struct{})
	go secrets.Guarded(func() {
		defer close(done)
		f()
	})()
	look := time.NewTicker(checkInterval)
	defer look.Stop()
	for {
		select {
		case <-done:
			return true
		case <-look.C:
			if memoryInUse() > limit {
				return false
			}
		}
	}
}

// memoryInUse returns how many bytes the process has from the operating system. It stops the world for
// some microseconds. runtime/metrics does not, but its package costs each start of the program
// more than the few checks of a poll.
func memoryInUse() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Sys - m.HeapReleased
}
