// Package durable makes the names of files survive a power loss. An fsync of a file
// is not enough: its name, and those of the folders above it, are content of other
// folders.
package osfile

import (
	"errors"
	"fmt"
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

// MkdirAll creates a folder, mode 0700, and its missing parents, and makes each of them
// durable in its parent. A folder that exists stays as it is.
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
