package osfile

import (
	"errors"
	"io/fs"
	"os"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"
)

// Lock returns the lock on a regular file, which is created with mode 0600 if it is
// missing. The lock is not taken yet. The error wraps ErrKind if something else is in
// the place of the file.
func Lock(path string) (*flock.Flock, error) {
	info, err := os.Lstat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, opening(path, err)
	}
	if err == nil && !info.Mode().IsRegular() {
		return nil, kindError(path, info)
	}
	// What comes there after this look must not hang us or be followed either.
	flags := os.O_CREATE | os.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK
	return flock.New(path, flock.SetPermissions(0o600), flock.SetFlag(flags)), nil
}
