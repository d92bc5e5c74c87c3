package turn

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

const (
	contextName = "context"
	outputName  = "output"

	maxOutputFiles = 1000
)

// File is one file of the context box. Name is slash-separated and local, such
// as "message.txt" or "attachments/1.pdf".
type File struct {
	Name string
	Body io.Reader
}

// Prepare makes the folder of an attempt (0700, files 0600). context/ holds the
// files, each read-only. output/ begins as a copy of carry, the output box of
// the attempt before, and empty if carry is "" or gone. Only regular files of
// carry are copied; links are not followed.
//
// A folder in which an agent was started is never used again: Prepare returns an
// error, ErrHeld if the agent still lives. A folder that was only prepared is
// made again.
func Prepare(dir string, context []File, carry string) error {
	held, _, err := Probe(dir)
	if err != nil {
		return err
	}
	if held {
		return fmt.Errorf("prepare %s: %w", dir, ErrHeld)
	}
	if _, err := os.Lstat(filepath.Join(dir, aliveName)); err == nil {
		return fmt.Errorf("prepare %s: the attempt was started already", dir)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("prepare attempt: %w", err)
	}
	for _, d := range []string{dir, filepath.Join(dir, contextName), filepath.Join(dir, outputName)} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return fmt.Errorf("prepare attempt: %w", err)
		}
	}
	if err := fillContext(filepath.Join(dir, contextName), context); err != nil {
		return fmt.Errorf("prepare attempt: %w", err)
	}
	if carry == "" {
		return nil
	}
	if err := copyOutput(carry, filepath.Join(dir, outputName)); err != nil {
		return fmt.Errorf("prepare attempt: carry %s: %w", carry, err)
	}
	return nil
}

func fillContext(dir string, files []File) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range files {
		if err := writeInto(root, f.Name, f.Body, 0o400); err != nil {
			return err
		}
	}
	return nil
}

// writeInto creates a file below root.
func writeInto(root *os.Root, name string, from io.Reader, mode fs.FileMode) error {
	if dir := path.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}

// copyOutput copies the regular files of one output box into another.
func copyOutput(from, to string) error {
	names, _, err := listOutputBox(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range names {
		f, err := openOutputFile(from, name)
		if err != nil {
			continue // it changed since it was listed, and is not carried
		}
		err = writeInto(root, name, f, 0o600)
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// OpenOutput opens a file that Result.Output or ListOutput names. It never leaves
// the output box of the attempt in dir and opens only regular files, whatever
// the agent or a survivor of it has put there since.
func OpenOutput(dir, name string) (*os.File, error) {
	return openOutputFile(filepath.Join(dir, outputName), name)
}

func openOutputFile(box, name string) (*os.File, error) {
	root, err := openOutputBox(box)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	// Without O_NONBLOCK a fifo would hang us.
	f, err := root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open output: %w", err)
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, fmt.Errorf("open output: %q is not a regular file", name)
	}
	return f, nil
}

// openOutputBox opens an output box. A link to a folder is an error.
func openOutputBox(box string) (*os.Root, error) {
	info, err := os.Lstat(box)
	if err != nil {
		return nil, fmt.Errorf("open output box: %w", err)
	}
	if !info.IsDir() {
		return nil, errors.New("open output box: it was replaced by something that is not a folder")
	}
	root, err := os.OpenRoot(box)
	if err != nil {
		return nil, fmt.Errorf("open output box: %w", err)
	}
	// OpenRoot follows a link that was put there after Lstat.
	if at, err := root.Stat("."); err != nil || !os.SameFile(info, at) {
		root.Close()
		return nil, errors.New("open output box: it was replaced while it was opened")
	}
	return root, nil
}

// ListOutput lists the files that an agent left in the output box of the
// attempt in dir, slash-separated and sorted, at most a thousand. Only regular
// files with printable names are listed; notes say what was left out and why. An
// output box that is gone or was replaced is an error.
func ListOutput(dir string) (names, notes []string, err error) {
	return listOutputBox(filepath.Join(dir, outputName))
}

func listOutputBox(box string) (names, notes []string, err error) {
	root, err := openOutputBox(box)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case name == ".":
			return err
		case err != nil:
			notes = append(notes, fmt.Sprintf("output: %q cannot be read", name))
			return nil
		case len(names)+len(notes) >= maxOutputFiles:
			notes = append(notes, fmt.Sprintf("output: more than %d files, the rest was left out", maxOutputFiles))
			return fs.SkipAll
		case !plainName(d.Name()):
			notes = append(notes, fmt.Sprintf("output: the name %q is not printable", name))
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.IsDir():
		case !d.Type().IsRegular():
			notes = append(notes, fmt.Sprintf("output: %q is not a regular file", name))
		default:
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		return names, notes, fmt.Errorf("list output box: %w", err)
	}
	return names, notes, nil
}

// plainName reports whether a mail and a terminal can show a name as it is.
func plainName(name string) bool {
	if !utf8.ValidString(name) || len(name) > 255 {
		return false
	}
	for _, r := range name {
		if !unicode.IsPrint(r) || r == '\\' {
			return false
		}
	}
	return true
}
