package store

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"agentstateloop/internal/osfile"
)

// Prune removes at most limit entries of a folder that were last changed before the given time,
// except those for which spared returns true. It returns the number removed. A number below limit
// means that no old entry is left. A missing folder has no old entries.
func (st *Store) Prune(folder string, before time.Time, spared func(name string) bool, limit int) (int, error) {
	err := osfile.Folder(st.path(folder))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	dir, err := os.Open(st.path(folder))
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	removed := 0
	for removed < limit {
		entries, err := dir.ReadDir(limit)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return removed, err
		}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil || !info.ModTime().Before(before) || spared(e.Name()) || removed == limit {
				continue
			}
			if err := osfile.RemoveAll(filepath.Join(dir.Name(), e.Name())); err != nil {
				return removed, err
			}
			removed++
		}
	}
	return removed, nil
}
