package backup

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle/archive"
	"agentstateloop/internal/osfile"
)

// draftPattern matches the names of archives that are being written.
const draftPattern = ".agentstateloop-backup-*"

// WriteFile writes an archive to a new file (0600), durably. Until it is whole it has another name.
// WriteFile keeps an existing file, and returns an error.
func (b Backup) WriteFile(ctx context.Context, file string) (archive.Manifest, error) {
	if err := CheckFree(file); err != nil {
		return archive.Manifest{}, err
	}
	draft, err := osfile.NewDraft(filepath.Dir(file), draftPattern)
	if err != nil {
		return archive.Manifest{}, err
	}
	defer draft.Close()
	defer os.Remove(draft.Name())
	m, err := b.Write(ctx, draft)
	if err := errors.Join(err, draft.Sync()); err != nil {
		return m, err
	}
	if err := nameNew(draft.Name(), file); err != nil {
		return m, err
	}
	return m, osfile.SyncDir(filepath.Dir(file))
}

// CheckFree returns an error if a file exists.
func CheckFree(file string) error {
	if _, err := os.Lstat(file); err == nil {
		return terminal.Usagef("name a new file, or remove that one", "%s already exists", file)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// nameNew gives a draft its name, unless a file has it.
func nameNew(draft, file string) error {
	err := os.Link(draft, file)
	if errors.Is(err, fs.ErrExist) {
		return cmp.Or(CheckFree(file), err)
	}
	if err == nil {
		return nil
	}
	// A file system without hard links, such as that of a USB stick. An empty file reserves the name.
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	f.Close()
	if err := os.Rename(draft, file); err != nil {
		return errors.Join(err, os.Remove(file))
	}
	return nil
}

// RemoveDrafts removes the drafts of archives in dir whose processes were killed.
func RemoveDrafts(dir string) { osfile.RemoveDrafts(dir, draftPattern) }

// open opens an archive for reading: a file, or standard input for "-".
func open(file string, stdin io.Reader) (io.ReadCloser, error) {
	if file == "-" {
		return io.NopCloser(stdin), nil
	}
	return osfile.Open(file)
}
