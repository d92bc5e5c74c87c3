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

// Damaged returns an error that wraps ErrDamaged, about a file below Dir.
func Damaged(name string, err error) error { return &damagedError{name, err} }

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
		return nil, Damaged(name, st.bare(name, err))
	case sum != "" && Sum(data) != sum:
		return nil, Damaged(name, fmt.Errorf("its %d bytes are not those that were kept", len(data)))
	}
	return data, nil
}

// OpenSummed opens a file, after its bytes were compared with its size and its sum. The
// errors are those of ReadSummed, and the file does not have to fit into memory.
func (st *Store) OpenSummed(name, sum string, size int64) (*os.File, error) {
	f, err := st.Open(name)
	if err == nil {
		h := sha256.New()
		var n int64
		n, err = io.Copy(h, io.LimitReader(f, size+1))
		if err == nil && (n != size || hex.EncodeToString(h.Sum(nil)) != sum) {
			err = errors.New("its bytes are not those that were kept")
		}
		if err == nil {
			_, err = f.Seek(0, io.SeekStart)
		}
		if err == nil {
			return f, nil
		}
		f.Close()
	}
	if scarce(err) {
		return nil, err
	}
	return nil, Damaged(name, st.bare(name, err))
}

// bare returns an error about a file without the file's path, which the caller names.
func (st *Store) bare(name string, err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok && p.Path == st.path(name) {
		return p.Err
	}
	return err
}

// ErrOtherBytes means that what was to take the place of a damaged file is not what
// was kept.
var ErrOtherBytes = errors.New("the bytes are not those that were kept")

// KeepAgain puts a file in the place of a damaged one, durably, and returns its sum.
// What was damaged stays next to it as NAME.damaged, until it is pruned. If want is
// not "" and the sum differs, it returns ErrOtherBytes, and the place is as it was.
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

// damagedExt ends the name of a damaged file whose place another one has taken.
const damagedExt = ".damaged"

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
