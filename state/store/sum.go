package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// ErrDamaged is wrapped by errors about a kept file that is missing, unreadable, of the wrong kind,
// or has different bytes.
var ErrDamaged = errors.New("damaged")

// damagedError describes the damage of a file.
type damagedError struct {
	name string // below Dir
	err  error
}

func (e *damagedError) Error() string        { return e.name + " is damaged: " + e.err.Error() }
func (e *damagedError) Unwrap() error        { return e.err }
func (e *damagedError) Is(target error) bool { return target == ErrDamaged }

// Damaged returns an error that wraps ErrDamaged, about a file below Dir.
func Damaged(name string, err error) error { return &damagedError{name, err} }

// Sum returns the sum of a payload: its SHA-256 in hexadecimal.
func Sum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// KeepSummed is Keep, and returns the sum of the written bytes.
func (st *Store) KeepSummed(name string, r io.Reader) (sum string, err error) {
	h := sha256.New()
	err = st.Keep(name, io.TeeReader(r, h))
	return hex.EncodeToString(h.Sum(nil)), err
}

// ReadSummed returns the bytes of a kept file, unchanged since they were kept. Otherwise the error
// wraps ErrDamaged, and fs.ErrNotExist too if the file is missing. The sum "" matches any bytes: an
// older version recorded no sum. If the machine lacks memory or file descriptors, the error does
// not wrap ErrDamaged.
func (st *Store) ReadSummed(name, sum string) ([]byte, error) {
	data, err := st.ReadFile(name, MaxPayload)
	switch {
	case isResourceError(err):
		return nil, err
	case err != nil:
		return nil, Damaged(name, st.withoutPath(name, err))
	case sum != "" && Sum(data) != sum:
		return nil, Damaged(name, fmt.Errorf("its %d bytes do not match its checksum", len(data)))
	}
	return data, nil
}

// OpenSummed opens a file after comparing its bytes with its size and sum. The errors are those of
// ReadSummed. The file does not have to fit into memory.
func (st *Store) OpenSummed(name, sum string, size int64) (*os.File, error) {
	f, err := st.Open(name)
	if err == nil {
		h := sha256.New()
		var n int64
		n, err = io.Copy(h, io.LimitReader(f, size+1))
		if err == nil && (n != size || hex.EncodeToString(h.Sum(nil)) != sum) {
			err = errors.New("its bytes do not match its checksum")
		}
		if err == nil {
			_, err = f.Seek(0, io.SeekStart)
		}
		if err == nil {
			return f, nil
		}
		f.Close()
	}
	if isResourceError(err) {
		return nil, err
	}
	return nil, Damaged(name, st.withoutPath(name, err))
}

// withoutPath returns an error about a file without the file's path, since the caller names the file.
func (st *Store) withoutPath(name string, err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok && p.Path == st.path(name) {
		return p.Err
	}
	return err
}

// ErrOtherBytes means that the replacement for a damaged file differs from the original bytes.
var ErrOtherBytes = errors.New("the bytes do not match the checksum")

// KeepAgain replaces a damaged file durably and returns the sum of the new one. The damaged file
// stays next to it as NAME.damaged, until it is pruned. If want is not "" and the sum differs,
// KeepAgain returns ErrOtherBytes and changes nothing.
func (st *Store) KeepAgain(name, want string, r io.Reader) (sum string, err error) {
	again := name + ".again"
	if sum, err = st.KeepSummed(again, r); err != nil {
		return "", err
	}
	if want != "" && sum != want {
		return "", errors.Join(ErrOtherBytes, st.Remove(again))
	}
	if err := st.Remove(name + damagedExt); err != nil {
		return "", err
	}
	err = os.Rename(st.path(name), st.path(name+damagedExt))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := st.Hook.at("rename", st.path(name)); err != nil {
		return "", err
	}
	if err := os.Rename(st.path(again), st.path(name)); err != nil {
		return "", err
	}
	return sum, syncDir(st.Hook, filepath.Dir(st.path(name)))
}

// damagedExt is the suffix of a damaged file that was replaced.
const damagedExt = ".damaged"

// isResourceError reports whether an error means a temporary lack of resources, which proves nothing about
// the file.
func isResourceError(err error) bool {
	for _, lack := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EINTR} {
		if errors.Is(err, lack) {
			return true
		}
	}
	return false
}
