package osfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// SyncDir makes the names in a folder durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("fsync %s: %w", dir, err)
	}
	return nil
}

// MkdirAll creates a folder, mode 0700, and its missing parents, and makes each of them durable
// in its parent. An existing folder stays as it is.
func MkdirAll(dir string) error {
	info, err := os.Stat(dir)
	if err == nil && info.IsDir() {
		return nil
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := MkdirAll(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		if info, statErr := os.Stat(dir); errors.Is(err, os.ErrExist) && statErr == nil && info.IsDir() {
			return nil // another process was faster
		}
		return err
	}
	return SyncDir(filepath.Dir(dir))
}

// RemoveAll is os.RemoveAll that also removes folders without write permission. It makes such a
// folder writable first. It removes links without following them.
func RemoveAll(path string) error {
	err := os.RemoveAll(path)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	MakeWritable(path)
	return os.RemoveAll(path)
}

// MakeWritable gives us all rights to the folder at path and to the folders in it, if we own
// them. It follows no link out of the folder.
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
