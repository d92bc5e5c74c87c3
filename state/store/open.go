package store

import (
	"os"

	"agentstateloop/internal/osfile"
)

// What a reader of our files takes into memory at most, in bytes. None of them comes
// near its limit, so that a longer one is not ours.
const (
	MaxPayload = 128 << 20 // a message, or an effect: the largest mail that is kept has 64 MiB
	maxState   = 256 << 20 // state.json: 1,000 waiting rows are 1 MB
	maxHistory = 1 << 30   // of a month: 60 mails an hour make a fifth of it; it is never in memory
	maxRecord  = 16 << 20  // one line of it
)

// Open opens a file of the directory for reading. A link, a named pipe or anything
// else in the place of the file, or of a folder on the way to it, is an error that
// names it (see package regular).
func (st *Store) Open(name string) (*os.File, error) {
	if err := osfile.Folders(st.Dir, name); err != nil {
		return nil, err
	}
	return osfile.Open(st.path(name))
}

// ReadFile returns the content of a file of the directory, as Open opens it. A file
// of more than limit bytes is an error.
func (st *Store) ReadFile(name string, limit int64) ([]byte, error) {
	if err := osfile.Folders(st.Dir, name); err != nil {
		return nil, err
	}
	return osfile.ReadFile(st.path(name), limit)
}

// CheckFolders returns an error if something else is in the place of a folder on the
// way to the file name, such as a link to another folder. The error names it.
func (st *Store) CheckFolders(name string) error { return osfile.Folders(st.Dir, name) }
