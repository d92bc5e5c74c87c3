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
		if pathError, ok := errors.AsType[*fs.PathError](err); ok { // names the draft, which says nothing to a user
			return nil, &fs.PathError{Op: "create a file in", Path: dir, Err: pathError.Err}
		}
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

// WriteDraft writes data to a draft with that mode, durably.
func WriteDraft(dir, pattern string, mode fs.FileMode, data []byte) (*os.File, error) {
	f, err := NewDraft(dir, pattern)
	if err != nil {
		return nil, err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Chmod(mode), f.Sync()); err != nil {
		return nil, errors.Join(err, os.Remove(f.Name()), f.Close())
	}
	return f, nil
}

// WriteNew creates a file in one step, durably, and its folder (0700). It keeps an existing file, and
// then written is false. pattern is that of the draft.
func WriteNew(file, pattern string, mode fs.FileMode, data []byte) (written bool, err error) {
	dir := filepath.Dir(file)
	if err := MkdirAll(dir); err != nil {
		return false, err
	}
	f, err := WriteDraft(dir, pattern, mode, data)
	if err != nil {
		return false, err
	}
	defer f.Close()
	defer os.Remove(f.Name())
	// A rename would replace a file created in the meantime.
	if err := os.Link(f.Name(), file); errors.Is(err, fs.ErrExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	return true, SyncDir(dir)
}

// Replace replaces the data of a regular file in one step, durably, or creates it. If file is a link,
// it replaces the file that the link points to. pattern is that of the draft.
func Replace(file, pattern string, mode fs.FileMode, data []byte) error {
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	if info, err := os.Lstat(file); err == nil && !info.Mode().IsRegular() {
		return kindError(file, info)
	}
	dir := filepath.Dir(file)
	f, err := WriteDraft(dir, pattern, mode, data)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := os.Rename(f.Name(), file); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return SyncDir(dir)
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
