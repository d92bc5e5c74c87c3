package osfile_test

import (
	"testing"

	"agentstateloop/internal/osfile"
)

// TestIsCopyOf has what file systems do with inode numbers and birth times. state/store has the test
// with real files.
func TestIsCopyOf(t *testing.T) {
	original := osfile.Identity{Inode: 7, Born: 1000}
	for what, c := range map[string]struct {
		now  osfile.Identity
		copy bool
	}{
		"the same file":                   {osfile.Identity{Inode: 7, Born: 1000}, false},
		"a copy":                          {osfile.Identity{Inode: 8, Born: 2000}, true},
		"a copy whose birth time was set": {osfile.Identity{Inode: 8, Born: 500}, true},
		"a copy that got the number of the removed file":       {osfile.Identity{Inode: 7, Born: 2000}, true},
		"a network file system numbers its files again":        {osfile.Identity{Inode: 8, Born: 1000}, false},
		"the server gives it the birth time of the older file": {osfile.Identity{Inode: 7, Born: 500}, false},
		"no birth times": {osfile.Identity{}, false},
	} {
		if got := osfile.ParseIdentity(c.now.String()).IsCopyOf(original); got != c.copy {
			t.Errorf("%s: %v", what, got)
		}
	}
	for _, text := range []string{"", "7", ".1000", "7.x", "-7.1000", "7.1000.1"} {
		if id := osfile.ParseIdentity(text); id != (osfile.Identity{}) {
			t.Errorf("%q is %v", text, id)
		}
	}
	if (osfile.Identity{Inode: 8, Born: 2000}).IsCopyOf(osfile.Identity{}) {
		t.Error("a file with an unknown original")
	}
}
