package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBreaksStillApply checks that the text each break replaces stands exactly
// once in its file, so that a change of the code cannot silently disarm it.
func TestBreaksStillApply(t *testing.T) {
	names, err := filepath.Glob("*.txt")
	if err != nil || len(names) == 0 {
		t.Fatalf("found no breaks: %v", err)
	}
	for _, name := range names {
		m, err := read(name)
		if err != nil {
			t.Error(err)
			continue
		}
		text, err := os.ReadFile(filepath.Join("..", "..", "..", m.file))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if n := strings.Count(string(text), m.old); n != 1 || m.old == m.new {
			t.Errorf("%s: the old text occurs %d times in %s", name, n, m.file)
		}
	}
}
