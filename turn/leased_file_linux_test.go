package turn

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestUnreadableFileIsNotCopied checks that the agent is told about an unreadable file of an earlier
// output folder.
func TestUnreadableFileIsNotCopied(t *testing.T) {
	before := filepath.Join(removableDir(t), "output")
	if err := os.MkdirAll(before, 0o700); err != nil {
		t.Fatal(err)
	}
	held, err := os.Create(filepath.Join(before, "held.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	// Not even root opens a file on which somebody has such a lease.
	if _, err := unix.FcntlInt(held.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skipf("no lease: %v", err)
	}
	dir := filepath.Join(removableDir(t), "turns", "t1", "2")
	if err := (FolderContents{Earlier: before}).Prepare(dir); err != nil {
		t.Fatal(err)
	}
	if got := readFile(t, dir, "context", LeftOutName); !strings.Contains(got, `output: cannot open "held.txt"`) {
		t.Errorf("left out: %q", got)
	}
}
