package osfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// NewDraft creates a file in dir (0600) that gets another name when it is whole. pattern is its name
// now, as in os.CreateTemp. The file stays locked until it is closed, so a draft without a lock
// belongs to a killed process. NewDraft removes such drafts.
func NewDraft(dir, pattern string) (*os.File, error) {
	RemoveDrafts(dir, pattern)
	for {
		f, err := os.CreateTemp(dir, pattern)
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), os.Remove(f.Name()), f.Close())
		}
		if _, err := os.Lstat(f.Name()); err == nil {
			return f, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, errors.Join(err, os.Remove(f.Name()), f.Close())
		}
		f.Close() // before the lock, another process has removed it as a leftover
	}
}

// RemoveDrafts removes the drafts in dir that killed processes left. They may contain a password.
func RemoveDrafts(dir, pattern string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if ours, _ := filepath.Match(pattern, e.Name()); !ours {
			continue
		}
		f, err := Open(filepath.Join(dir, e.Name()))
		if err != nil {
			continue
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = os.Remove(f.Name())
		}
		f.Close()
	}
}
