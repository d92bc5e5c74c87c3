package osfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// RemoveAll is os.RemoveAll, also for folders that nobody may write to. Such a folder
// is made writable first. Links are removed, not followed.
func RemoveAll(path string) error {
	err := os.RemoveAll(path)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	MakeWritable(path)
	return os.RemoveAll(path)
}

// MakeWritable gives us every right to the folder at path and to the folders in it, as
// far as they are ours. It follows no link out of the folder.
func MakeWritable(path string) {
	parent, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return
	}
	defer parent.Close()
	name := filepath.Base(path)
	if info, err := parent.Lstat(name); err != nil || !info.IsDir() {
		return
	}
	_ = parent.Chmod(name, 0o700)
	root, err := parent.OpenRoot(name)
	if err != nil {
		return
	}
	defer root.Close()
	// The walk reads a folder after it has visited it.
	_ = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = root.Chmod(name, 0o700)
		}
		return nil
	})
}
