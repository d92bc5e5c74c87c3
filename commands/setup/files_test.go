package setup

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// TestWriteNewOnlyOnce checks that one of many concurrent writers of a file succeeds, and that the
// file is complete.
func TestWriteNewOnlyOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "agent.toml")
	var wrote atomic.Int32
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			written, err := writeNew(path, strings.Repeat(string(rune('a'+i)), 10_000))
			if err != nil {
				t.Error(err)
			}
			if written {
				wrote.Add(1)
			}
		})
	}
	all.Wait()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	if wrote.Load() != 1 || len(text) != 10_000 || strings.Trim(text, text[:1]) != "" {
		t.Errorf("%d wrote it, and it has %d bytes", wrote.Load(), len(text))
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("the folder has %v, %v", entries, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/nowhere/at/all", path); err != nil {
		t.Fatal(err)
	}
	if written, err := writeNew(path, "x"); written || err != nil {
		t.Errorf("over a dangling link: %v, %v", written, err)
	}
}
