package cycle

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrFileThere means that a file was not saved, because another one has its name.
var ErrFileThere = errors.New("it is there already, and nothing is overwritten")

// Save writes the files into a folder, each under its sender's name if that is safe, and sets
// their paths. It makes the folder if necessary. It overwrites no file and follows no link in
// the folder: if one of the names is taken, it writes no files, and the error wraps
// ErrFileThere. It leaves out missing files.
func (c *CameWith) Save(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range c.Files {
		if _, err := root.Lstat(f.saveAs); f.Missing == "" && !errors.Is(err, fs.ErrNotExist) {
			if err == nil {
				err = ErrFileThere
			}
			return fmt.Errorf("%s: %w", filepath.Join(dir, f.saveAs), err)
		}
	}
	for i, f := range c.Files {
		if f.Missing != "" {
			continue
		}
		file := filepath.Join(dir, f.saveAs)
		if err := f.saveIn(root); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		c.Files[i].Path = &file
	}
	return nil
}

// saveIn writes a new file. It removes a file that could not be written whole.
func (f ReceivedFile) saveIn(root *os.Root) error {
	from, err := f.open()
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := root.OpenFile(f.saveAs, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return ErrFileThere
	}
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if err = errors.Join(err, to.Close()); err != nil {
		return errors.Join(err, root.Remove(f.saveAs))
	}
	return nil
}
