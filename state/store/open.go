package store

import (
	"os"

	"agentstateloop/internal/osfile"
)

// Limits on the files that a reader loads, in bytes. Our own files stay far below them, so a longer
// file is not ours.
const (
	MaxPayload = 128 << 20 // a message, or an effect: the largest mail that is kept has 64 MiB
	maxState   = 256 << 20 // state.json: 1,000 waiting rows are 1 MB
	maxHistory = 1 << 30   // one month: 60 mails an hour fill a fifth of it; never loaded whole
	maxRecord  = 16 << 20  // one line of the history
)

// Open opens a file of the directory for reading. If the file, or a folder on the way to it, is a
// link, a named pipe or another irregular file, Open returns an error that names it (see package
// regular).
func (st *Store) Open(name string) (*os.File, error) {
	if err := osfile.Folders(st.Dir, name); err != nil {
		return nil, err
	}
	return osfile.Open(st.path(name))
}

// ReadFile returns the content of a file of the directory. It opens the file like Open. A file
// longer than limit bytes is an error.
func (st *Store) ReadFile(name string, limit int64) ([]byte, error) {
	if err := osfile.Folders(st.Dir, name); err != nil {
		return nil, err
	}
	return osfile.ReadFile(st.path(name), limit)
}

// CheckFolders returns an error if any folder on the way to the file name is not a real folder,
// such as a link to another folder. The error names it.
func (st *Store) CheckFolders(name string) error { return osfile.Folders(st.Dir, name) }
