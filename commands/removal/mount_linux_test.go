package removal

import (
	"syscall"
	"testing"
)

// mountOver makes a folder impossible to remove, until undo is called.
func mountOver(t *testing.T, dir string) (undo func()) {
	t.Helper()
	if err := syscall.Mount("none", dir, "tmpfs", 0, ""); err != nil {
		t.Skip("the test mounts a file system: ", err)
	}
	undone := false
	undo = func() {
		if undone {
			return
		}
		undone = true
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(undo)
	return undo
}
