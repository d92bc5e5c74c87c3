package store

import (
	"bytes"
	"os"

	"agentstateloop/internal/osfile"
)

// mendHole rewrites the newest lines of the history if a power loss left a hole in them: the end of
// the append reached the disk, but an earlier part did not. A hole reads as zero bytes, which no
// line contains. The lines come from the state s.
func (st *Store) mendHole(name string, s stored) error {
	if st.synced.Load() == s.Lines[0].Serial || s.Chain.Serial != s.Lines[0].Serial {
		return nil // this process has fsynced them, or an older program wrote them
	}
	lines, err := seal(s.Chain.Before, s.Lines)
	if err != nil {
		return err
	}
	var want []byte
	for _, l := range lines {
		want = append(want, l.data...)
	}
	path := st.path(name)
	f, err := osfile.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	end, err := wholeLines(f)
	if err != nil {
		return err
	}
	start := end - int64(len(want))
	if start < 0 {
		return nil
	}
	got := make([]byte, len(want))
	if _, err := f.ReadAt(got, start); err != nil {
		return err
	}
	if !bytes.Contains(got, []byte{0}) {
		return nil
	}
	return st.writeAt(f, path, want, start)
}
