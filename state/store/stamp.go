package store

import (
	"errors"
	"io/fs"
	"os"
)

// Stamp distinguishes the states that Read returns one after the other, without reading
// them. The zero value is that of no state.
type Stamp struct{ file fs.FileInfo }

// Same reports whether two stamps are of the same state.
func (s Stamp) Same(t Stamp) bool {
	if s.file == nil || t.file == nil {
		return s.file == nil && t.file == nil
	}
	return os.SameFile(s.file, t.file) && s.file.ModTime().Equal(t.file.ModTime()) && s.file.Size() == t.file.Size()
}

// Stamp returns the stamp of the present state. Take it before Read: then a state that
// comes between the two has another one.
func (st *Store) Stamp() (Stamp, error) {
	info, err := os.Lstat(st.path(stateFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Stamp{}, err
	}
	return Stamp{info}, nil
}
