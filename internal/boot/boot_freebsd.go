package boot

import (
	"encoding/hex"

	"golang.org/x/sys/unix"
)

const clock = unix.CLOCK_MONOTONIC // runs on during sleep

// ID returns the id of this boot of the kernel.
func ID() (string, error) {
	id, err := unix.SysctlRaw("kern.boot_id")
	return hex.EncodeToString(id), err
}
