package osfile

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMakeWritable(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	box := filepath.Join(dir, "box")
	for _, d := range []string{box, filepath.Join(box, "a"), filepath.Join(box, "a", "b")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(box, "a", "b", "file"), nil, 0o400); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(box, "a", "link")); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{filepath.Join(box, "a", "b"), filepath.Join(box, "a"), box, outside} {
		if err := os.Chmod(d, 0o500); err != nil {
			t.Fatal(err)
		}
	}
	MakeWritable(box)
	for name, want := range map[string]os.FileMode{
		box: 0o700, filepath.Join(box, "a"): 0o700, filepath.Join(box, "a", "b"): 0o700, outside: 0o500,
		filepath.Join(box, "a", "b", "file"): 0o400,
	} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v %v, want %v", name, info.Mode(), err, want)
		}
	}
	if err := os.Chmod(outside, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := RemoveAll(box); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(outside); err != nil {
		t.Error(err)
	}
	if err := RemoveAll(box); err != nil { // it is gone
		t.Error(err)
	}
}
