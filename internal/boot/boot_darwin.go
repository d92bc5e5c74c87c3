package boot

import "golang.org/x/sys/unix"

const clock = 6 // CLOCK_MONOTONIC of darwin, which runs on during sleep

// ID returns the id of this boot of the kernel.
func ID() (string, error) { return unix.Sysctl("kern.bootsessionuuid") }
