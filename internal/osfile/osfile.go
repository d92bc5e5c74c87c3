// Package osfile keeps files safely. It opens the files that we keep, and only if they are regular files. Another
// object may have replaced a file, by accident or not: a link to a foreign file, a named
// pipe without a writer, a folder, a device. Then each function returns an error with the path
// and the kind of the object. The functions do not follow a link in the last element of the
// path, and do not wait for a pipe.
//
// Some functions make the names of files survive a power loss. An fsync of a file is not enough:
// its name, and the names of the folders above it, are content of other folders.
package osfile

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"
)

// ErrKind is wrapped in the error for an object that is not a regular file, or not a folder.
var ErrKind = errors.New("wrong kind of file")

// ErrTooLarge is wrapped in the error for a file that is longer than the limit.
var ErrTooLarge = errors.New("too large")

// wrongKind names the kind that was found and the kind that was expected.
type wrongKind struct{ is, want string }

func (e *wrongKind) Error() string        { return "it is " + e.is + ", not " + e.want }
func (e *wrongKind) Is(target error) bool { return target == ErrKind }

// Open opens a regular file for reading.
func Open(path string) (*os.File, error) { return OpenFile(path, os.O_RDONLY, 0) }

// OpenAppend opens a regular file for appending. It creates a missing file with mode perm.
func OpenAppend(path string, perm fs.FileMode) (*os.File, error) {
	return OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, perm)
}

// OpenFile is os.OpenFile for a regular file. The error wraps fs.ErrNotExist if the file is
// missing, and ErrKind if path is not a regular file.
func OpenFile(path string, flag int, perm fs.FileMode) (*os.File, error) {
	// Opening a device may have an effect, so check the kind first.
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

// OpenAtMost opens a regular file of at most limit bytes for reading. For a longer file, the
// error wraps ErrTooLarge.
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

// ReadFile returns the content of a regular file of at most limit bytes. For a longer file, the
// error wraps ErrTooLarge, and ReadFile does not read it.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := OpenAtMost(path, limit)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadAll(f, limit)
}

// ReadAll returns the content of an open file from its current position, as ReadFile does.
func ReadAll(f *os.File, limit int64) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	// Read in one piece: a growing buffer would take more than twice the memory.
	data := bytes.NewBuffer(make([]byte, 0, info.Size()+bytes.MinRead))
	_, err = data.ReadFrom(io.LimitReader(f, limit+1))
	if err == nil && int64(data.Len()) > limit { // the file grew
		err = tooLarge(f.Name(), int64(data.Len()), limit)
	}
	if err != nil {
		return nil, err
	}
	return data.Bytes(), nil
}

// SHA256 returns the hash of the content of a file, which may be a link.
func SHA256(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sum := sha256.New()
	_, err = io.Copy(sum, f)
	return sum.Sum(nil), err
}

// File returns the error that OpenAtMost would return for the kind or the size of the file at
// path. It does not open the file.
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

// kind returns the kind of the object at path, in words: "a regular file", "a folder", "a link
// to NAME", "a named pipe", "a socket" or "a device".
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

// opening returns an error of the type that the standard library uses and callers know.
func opening(path string, err error) error {
	var inner *fs.PathError
	if errors.As(err, &inner) {
		err = inner.Err
	}
	return &fs.PathError{Op: "open", Path: path, Err: err}
}

func tooLarge(path string, size, limit int64) error {
	return &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("%w: %d bytes, the limit is %d", ErrTooLarge, size, limit)}
}

// Folders returns an error if an element on the way from dir to the file name below it is not a
// folder, such as a link to a foreign folder. A missing folder is not an error. dir itself may
// be a link. name ends in the file, which Folders does not check.
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

// Folder returns an error if path is not a folder, or is a link to one. It wraps fs.ErrNotExist
// if path is missing, and ErrKind if it is something else.
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

// Lines yields the lines of a file, each with its newline. It omits a last line without a
// newline, which a crash has torn. For a line of more than limit bytes it yields only the
// newline, which limits the memory that a file can take. After an error it yields no more
// lines.
func Lines(r io.Reader, limit int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		buffered := bufio.NewReaderSize(r, 64<<10)
		for {
			line, _, err := ReadLine(buffered, limit)
			if errors.Is(err, io.EOF) || !yield(line, err) || err != nil {
				return
			}
		}
	}
}

// ReadLine returns the next line as Lines yields it, and its size in the file, in bytes. The
// error is io.EOF at the end, also after a torn line.
func ReadLine(r *bufio.Reader, limit int) (line []byte, size int64, err error) {
	for tooLong := false; ; {
		part, err := r.ReadSlice('\n')
		size += int64(len(part))
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, size, err
		}
		if tooLong = tooLong || len(line)+len(part) > limit; tooLong {
			line = nil
		} else {
			line = append(line, part...)
		}
		switch {
		case err != nil: // the line goes on
		case tooLong:
			return []byte{'\n'}, size, nil
		default:
			return line, size, nil
		}
	}
}

// Lock returns the lock on a regular file, and creates the file with mode 0600 if it is
// missing. It does not take the lock. The error wraps ErrKind if path is not a regular file.
func Lock(path string) (*flock.Flock, error) {
	info, err := os.Lstat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, opening(path, err)
	}
	if err == nil && !info.Mode().IsRegular() {
		return nil, kindError(path, info)
	}
	// A link or a pipe that appears after this check must not be followed, or hang us.
	flags := os.O_CREATE | os.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK
	return flock.New(path, flock.SetPermissions(0o600), flock.SetFlag(flags)), nil
}
