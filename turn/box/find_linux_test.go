package box

import (
	"errors"
	"testing"
)

// TestForbiddenNamespaces checks which errors of bubblewrap mean that the machine forbids namespaces.
func TestForbiddenNamespaces(t *testing.T) {
	for words, want := range map[string]bool{
		"bwrap: No permissions to create new namespace, likely because the kernel does not allow non-privileged user namespaces.": true,
		"bwrap: Creating new namespace failed: Operation not permitted":                                                           true,
		"bwrap: setting up uid map: Permission denied":                                                                            true,
		"bwrap: Creating new namespace failed, likely because the kernel has too few: No space left on device":                    true,
		"bwrap: Can't find source path /usr: No such file or directory":                                                           false,
		"bubblewrap is not installed": false,
	} {
		if got := forbidsNamespaces(errors.New(words)); got != want {
			t.Errorf("%s: %v", words, got)
		}
	}
}
