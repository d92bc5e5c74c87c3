package osfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Folders returns an error if a folder on the way from dir to the file name below it
// is something else, such as a link to a folder of somebody else. A folder that is
// missing is not an error. dir itself may be a link, and name ends in the file, which
// is not looked at.
func Folders(dir, name string) error {
	elements := strings.Split(filepath.ToSlash(filepath.Clean(name)), "/")
	for i := 1; i < len(elements); i++ {
		err := Folder(filepath.Join(dir, filepath.Join(elements[:i]...)))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Folder returns an error if path is not a folder, or is a link to one. It wraps
// fs.ErrNotExist if nothing is there, and ErrKind if something else is.
func Folder(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return opening(path, err)
	}
	if !info.IsDir() {
		return opening(path, &wrongKind{kind(path, info), "a folder"})
	}
	return nil
}
