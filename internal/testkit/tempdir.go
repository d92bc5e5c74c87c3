package testkit

import (
	"os"
	"os/exec"
	"syscall"
)

// InMemory puts the folders of the tests into memory if the machine has enough room there:
// these tests make thousands of polls, and each poll waits for the disk many times. A run that
// requires everything to be real stays on the disk.
func InMemory() error {
	const memory, room, noExec = "/dev/shm", 1 << 30, 8
	var fs syscall.Statfs_t
	if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") != "" || os.Getenv("TMPDIR") != "" {
		return nil
	}
	if err := syscall.Statfs(memory, &fs); err != nil || fs.Bavail*uint64(fs.Bsize) < room || fs.Flags&noExec != 0 {
		return nil
	}
	return os.Setenv("TMPDIR", memory)
}

// InMemoryWithoutBoxes is InMemory for tests that make sandboxes if bubblewrap is installed. A
// sandbox has its own /dev/shm, so with bubblewrap the tests stay on the disk.
func InMemoryWithoutBoxes() error {
	if _, err := exec.LookPath("bwrap"); err == nil {
		return nil
	}
	return InMemory()
}

// WriteProgram writes a program that can be started at once, even while other goroutines start
// processes. A process that is just starting holds a copy of every open file for a moment, and
// a program that is open for writing cannot be started ("text file busy").
func WriteProgram(path, text string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(path, []byte(text), 0o700)
}
