package store

import (
	"fmt"
	"os"
	"time"

	"agentstateloop/internal/regular"
)

// maxLog is the size in bytes at which the log becomes log.1.
const maxLog = 1 << 20

// Log adds one line to the log: what a poll did, and why. Callers may ignore its
// error: a log that cannot be written must not stop them.
func (st *Store) Log(now time.Time, text string) error {
	path := st.path("log")
	if info, err := os.Stat(path); err == nil && info.Size() >= maxLog {
		if err := os.Rename(path, path+".1"); err != nil {
			return err
		}
	}
	f, err := regular.OpenAppend(path, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprintf(f, "%s %s\n", now.UTC().Format(time.RFC3339), shortLine(text))
	return err
}
