package store

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"agentstateloop/internal/osfile"
	"agentstateloop/state"
)

// folders are what must be a folder, if it is there. All else that has a name of ours
// must be a regular file.
var folders = []string{MessagesDir, OutboxDir, SentDir, QuarantineDir, NudgesDir, TurnsDir, MemoryDir, MemoryPrevDir, "crontab-backups"}

// files are the names of our files, as patterns of filepath.Match, each with the size in
// bytes from which on it cannot be used.
var files = []struct {
	pattern string
	limit   int64
}{
	{stateFile, maxState}, {prevFile, maxState}, {"history-*.jsonl", maxHistory}, {IDKeyFile, maxKeyFile},
	{MemoryFile, maxOldMemory}, {MemoryPrevFile, maxOldMemory},
	{logFile, math.MaxInt64}, {logFile + ".1", math.MaxInt64}, {"*.lock", math.MaxInt64},
}

// Obstacles returns an error for each file or folder of the directory in whose place
// something else is, or which this user may not use, the payloads that s names included.
// Each error names its file. What is missing is not an obstacle. Obstacles opens nothing
// and takes no lock.
func (st *Store) Obstacles(s state.State) []error {
	var found []error
	add := func(err error) {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			found = append(found, err)
		}
	}
	entries, err := os.ReadDir(st.Dir)
	add(err)
	for _, e := range entries {
		path := st.path(e.Name())
		if slices.Contains(folders, e.Name()) {
			add(usableFolder(path))
		}
		for _, f := range files {
			if ours, _ := filepath.Match(f.pattern, e.Name()); ours {
				add(usableFile(path, f.limit))
			}
		}
	}
	for _, name := range payloadsOf(s) {
		if st.CheckFolders(name) == nil { // else its folder is named already
			add(usableFile(st.path(name), MaxPayload))
		}
	}
	return found
}

// Blocked returns the first obstacle without which no poll or no turn can be made, or nil.
func (st *Store) Blocked(s state.State) error {
	for _, err := range st.Obstacles(s) {
		e, ok := errors.AsType[*fs.PathError](err)
		if ok && slices.Contains([]string{CycleLock, TurnLock, stateLock, TurnsDir, OutboxDir}, filepath.Base(e.Path)) {
			return err
		}
	}
	return nil
}

// payloadsOf returns the names of the payloads that a state still needs.
func payloadsOf(s state.State) []string {
	var names []string
	for _, m := range s.Inbox {
		names = append(names, m.Payload)
	}
	for _, e := range s.Outbox {
		names = append(names, e.File)
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// usableFolder returns why a folder cannot be used, or nil.
func usableFolder(path string) error {
	if err := osfile.Folder(path); err != nil {
		return err
	}
	return allowed(path, unix.R_OK|unix.W_OK|unix.X_OK)
}

// usableFile returns why a file cannot be used, or nil. Locks are only read.
func usableFile(path string, limit int64) error {
	if err := osfile.File(path, limit); err != nil {
		return err
	}
	if strings.HasSuffix(path, ".lock") {
		return allowed(path, unix.R_OK)
	}
	return allowed(path, unix.R_OK|unix.W_OK)
}

// allowed returns an error if this user may not use a file in these ways.
func allowed(path string, ways uint32) error {
	if err := unix.Access(path, ways); err != nil {
		return &fs.PathError{Op: "use", Path: path, Err: err}
	}
	return nil
}
