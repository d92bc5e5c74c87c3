package store

import (
	"errors"
	"io/fs"
	"os"
)

// Stamp identifies a version of the state without reading it. The zero value means that no state
// exists.
type Stamp struct{ file fs.FileInfo }

// Same reports whether two stamps are of the same state.
func (s Stamp) Same(t Stamp) bool {
	if s.file == nil || t.file == nil {
		return s.file == nil && t.file == nil
	}
	return os.SameFile(s.file, t.file) && s.file.ModTime().Equal(t.file.ModTime()) && s.file.Size() == t.file.Size()
}

// Stamp returns the stamp of the current state. Call it before Read: if a new state is written in
// between, its stamp differs.
func (st *Store) Stamp() (Stamp, error) {
	info, err := os.Lstat(st.path(stateFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Stamp{}, err
	}
	return Stamp{info}, nil
}
