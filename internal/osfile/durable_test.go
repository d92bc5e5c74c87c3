package osfile

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMkdirAll(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "a", "b")
	for range 2 { // again, it changes nothing
		if err := MkdirAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if err := os.WriteFile(filepath.Join(root, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := MkdirAll(filepath.Join(root, "file", "c")); err == nil {
		t.Error("a folder was made in a file")
	}
	if err := SyncDir(filepath.Join(root, "missing")); err == nil {
		t.Error("a folder that is missing was fsynced")
	}
}
