package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"syscall"
)

// ErrDamaged is in the errors that say that a file is not what was kept: it is
// missing, something else is in its place, it cannot be read, or its bytes differ.
var ErrDamaged = errors.New("damaged")

// damagedError says what is wrong with a file.
type damagedError struct {
	name string // below Dir
	err  error
}

func (e *damagedError) Error() string        { return e.name + " is damaged: " + e.err.Error() }
func (e *damagedError) Unwrap() error        { return e.err }
func (e *damagedError) Is(target error) bool { return target == ErrDamaged }

// Sum returns the sum of a payload: its SHA-256 in hexadecimal.
func Sum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// KeepSummed is Keep, and returns the sum of what it wrote.
func (st *Store) KeepSummed(name string, r io.Reader) (sum string, err error) {
	h := sha256.New()
	err = st.Keep(name, io.TeeReader(r, h))
	return hex.EncodeToString(h.Sum(nil)), err
}

// ReadSummed returns the bytes of a file that was kept, as they were kept. The error
// wraps ErrDamaged if they cannot be had. It wraps fs.ErrNotExist too if the file is
// missing. A sum of "" is that of an older version, which recorded none: then any
// bytes will do.
func (st *Store) ReadSummed(name, sum string) ([]byte, error) {
	data, err := st.ReadFile(name, MaxPayload)
	switch {
	case scarce(err):
		return nil, err
	case err != nil:
		return nil, &damagedError{name, err}
	case sum != "" && Sum(data) != sum:
		return nil, &damagedError{name, fmt.Errorf("its %d bytes are not those that were kept", len(data))}
	}
	return data, nil
}

// scarce reports whether an error says that the machine lacks something now, which
// proves nothing about the file.
func scarce(err error) bool {
	for _, lack := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EINTR} {
		if errors.Is(err, lack) {
			return true
		}
	}
	return false
}
