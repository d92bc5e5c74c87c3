package boot

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

const clock = unix.CLOCK_BOOTTIME

// ID returns the id of this boot of the kernel.
func ID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}
