package doctor

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// levels returns the levels of findings, separated by spaces.
func levels(found []Finding) string {
	var all []string
	for _, f := range found {
		all = append(all, string(f.Level))
	}
	return strings.Join(all, " ")
}

// TestFileSystemTypeFindings checks that a file system without hard links is an error, and one
// with doubtful locks a warning.
func TestFileSystemTypeFindings(t *testing.T) {
	for kind, want := range map[string]string{"": "", "exfat": "error", "nfs": "warn"} {
		if got := levels(checkType("/state", kind)); got != want {
			t.Errorf("%q: got %q, want %q", kind, got, want)
		}
	}
}

// TestEnoughSpaceIsNoFinding checks a file system with enough space, also one that does not count
// its files. TestLimits checks the limits for free bytes and files.
func TestEnoughSpaceIsNoFinding(t *testing.T) {
	for _, fs := range []unix.Statfs_t{{Bsize: 1 << 20, Bavail: 1000, Files: 1000, Ffree: 1000}, {Bsize: 1 << 20, Bavail: 1000}} {
		if got := levels(checkSpace(&fs)); got != "" {
			t.Errorf("%d files: got %q", fs.Files, got)
		}
	}
}
