package store

import (
	"fmt"
	"os"
	"time"

	"agentstateloop/internal/osfile"
)

// The log file, and the size in bytes at which it is renamed to log.1.
const (
	logFile = "log"
	maxLog  = 1 << 20
)

// Log adds one line to the log: an action of a poll and its reason. Callers may ignore the error:
// an unwritable log must not stop them, and Obstacles reports the cause.
func (st *Store) Log(now time.Time, text string) error {
	path := st.path(logFile)
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Size() >= maxLog {
		if err := renameOver(path, path+".1"); err != nil {
			return err
		}
	}
	f, err := osfile.OpenAppend(path, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprintf(f, "%s %s\n", now.UTC().Format(time.RFC3339), shortLine(text))
	return err
}
