// Package regular opens the files that we keep, and only if they are files. What
// stands in the place of one may be something else, by accident or not: a link to
// a file of somebody else, a named pipe that nobody writes, a folder, a device.
// Then each function returns an error that names the path and what is there. None
// follows a link in the last element of the path, and none waits for a pipe.
package osfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// ErrKind is in the errors that say that something else is in the place of a
// regular file or of a folder.
var ErrKind = errors.New("wrong kind of file")

// ErrTooLarge is in the errors that say that a file is longer than the limit.
var ErrTooLarge = errors.New("too large")

// wrongKind says what is there, and what belongs there.
type wrongKind struct{ is, want string }

func (e *wrongKind) Error() string        { return "it is " + e.is + ", not " + e.want }
func (e *wrongKind) Is(target error) bool { return target == ErrKind }

// Open opens a regular file for reading.
func Open(path string) (*os.File, error) { return OpenFile(path, os.O_RDONLY, 0) }

// OpenAppend opens a regular file for appending, and creates it with mode perm if
// it is missing.
func OpenAppend(path string, perm fs.FileMode) (*os.File, error) {
	return OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, perm)
}

// OpenFile is os.OpenFile for a regular file. The error wraps fs.ErrNotExist if it is
// missing, and ErrKind if something else is in its place.
func OpenFile(path string, flag int, perm fs.FileMode) (*os.File, error) {
	// A device may act when it is opened, so what is there is asked first.
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && flag&os.O_CREATE != 0:
	case err != nil:
		return nil, opening(path, err)
	case !info.Mode().IsRegular():
		return nil, kindError(path, info)
	}
	f, err := os.OpenFile(path, flag|unix.O_NOFOLLOW|unix.O_NONBLOCK, perm)
	if err != nil {
		if now, statErr := os.Lstat(path); statErr == nil && !now.Mode().IsRegular() {
			return nil, kindError(path, now)
		}
		return nil, err
	}
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
		err = kindError(path, info)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// OpenAtMost opens a regular file of at most limit bytes for reading. The error of a
// longer one wraps ErrTooLarge.
func OpenAtMost(path string, limit int64) (*os.File, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() > limit {
		err = tooLarge(path, info.Size(), limit)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// ReadFile returns the content of a regular file of at most limit bytes. The error of
// a longer one wraps ErrTooLarge; nothing of it is read.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := OpenAtMost(path, limit)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadAll(f, limit)
}

// ReadAll returns the content of an open file, from where it stands, as ReadFile does.
func ReadAll(f *os.File, limit int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	// In one piece: growing would take more than twice the memory.
	data := bytes.NewBuffer(make([]byte, 0, info.Size()+bytes.MinRead))
	_, err = data.ReadFrom(io.LimitReader(f, limit+1))
	if err == nil && int64(data.Len()) > limit { // it grew
		err = tooLarge(f.Name(), int64(data.Len()), limit)
	}
	if err != nil {
		return nil, err
	}
	return data.Bytes(), nil
}

// File returns the error that OpenAtMost would return for the kind or the size of what
// is at path. It opens nothing.
func File(path string, limit int64) error {
	info, err := os.Lstat(path)
	if err != nil {
		return opening(path, err)
	}
	if !info.Mode().IsRegular() {
		return kindError(path, info)
	}
	if info.Size() > limit {
		return tooLarge(path, info.Size(), limit)
	}
	return nil
}

// kind returns what is at a path, in words: "a regular file", "a folder", "a link to
// NAME", "a named pipe", "a socket" or "a device".
func kind(path string, info fs.FileInfo) string {
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return "a regular file"
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeSymlink != 0:
		if target, err := os.Readlink(path); err == nil {
			return "a link to " + strconv.Quote(target)
		}
		return "a link"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	default:
		return "a device"
	}
}

func kindError(path string, info fs.FileInfo) error {
	return opening(path, &wrongKind{kind(path, info), "a regular file"})
}

// opening is the error of the standard library, of which callers know the type.
func opening(path string, err error) error {
	var inner *fs.PathError
	if errors.As(err, &inner) {
		err = inner.Err
	}
	return &fs.PathError{Op: "open", Path: path, Err: err}
}

func tooLarge(path string, size, limit int64) error {
	return &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("%w: it has %d bytes, and the limit is %d", ErrTooLarge, size, limit)}
}
