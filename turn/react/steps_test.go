package react_test

import (
	"os"
	"path/filepath"
	"testing"

	"agentstateloop/turn/react"
)

// A steps.jsonl that is not a regular file is an error.
func TestStepsNotARegularFile(t *testing.T) {
	turn := t.TempDir()
	for _, epoch := range []string{"1", "2"} {
		if err := os.Mkdir(filepath.Join(turn, epoch), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(turn, "1", "steps.jsonl")); err != nil {
		t.Fatal(err)
	}
	if _, err := react.OpenSteps(filepath.Join(turn, "2")); err == nil {
		t.Error("followed the link")
	}
}
