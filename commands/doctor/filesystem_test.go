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

// TestCheckType checks that a file system without hard links is an error, and one
// with doubtful locks a warning.
func TestCheckType(t *testing.T) {
	for kind, want := range map[string]string{"": "", "exfat": "error", "nfs": "warn"} {
		if got := levels(checkType("/state", kind)); got != want {
			t.Errorf("%q: got %q, want %q", kind, got, want)
		}
	}
}

// TestCheckSpace checks the limits for free bytes and free inodes.
func TestCheckSpace(t *testing.T) {
	for _, tt := range []struct {
		mib   uint64
		all   uint64 // files; a file system may not tell
		files uint64
		want  string
	}{{1000, 1000, 1000, ""}, {199, 1000, 1000, "warn"}, {9, 1000, 1000, "error"}, {1000, 1000, 99, "error"}, {1000, 0, 0, ""}} {
		stat := unix.Statfs_t{Bsize: 1 << 20, Bavail: tt.mib, Files: tt.all, Ffree: tt.files}
		if got := levels(checkSpace(&stat)); got != tt.want {
			t.Errorf("%d MiB and %d files: got %q, want %q", tt.mib, tt.files, got, tt.want)
		}
	}
}
