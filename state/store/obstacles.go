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

// folders are the names that must be folders if they exist. All other names of ours must be regular
// files.
var folders = []string{MessagesDir, OutboxDir, SentDir, QuarantineDir, NudgesDir, TurnsDir, MemoryDir, MemoryPrevDir, "crontab-backups"}

// files are patterns for the names of our files, in the syntax of filepath.Match. Each has the size
// in bytes above which the file is unusable.
var files = []struct {
	pattern string
	limit   int64
}{
	{stateFile, maxState}, {prevFile, maxState}, {"history-*.jsonl", maxHistory}, {IDKeyFile, maxKeyFile},
	{MemoryFile, maxOldMemory}, {MemoryPrevFile, maxOldMemory},
	{logFile, math.MaxInt64}, {logFile + ".1", math.MaxInt64}, {"*.lock", math.MaxInt64},
}

// Obstacles returns an error for each unusable file or folder of the directory: one of the wrong
// kind or too large, or one this user may not access. It also checks the payloads that s names.
// Each error names its file. A missing file is not an obstacle. Obstacles opens no file and takes
// no lock.
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
		if st.CheckFolders(name) == nil { // otherwise its folder is already reported
			add(usableFile(st.path(name), MaxPayload))
		}
	}
	return found
}

// Blocked returns the first obstacle that prevents every poll or turn, or nil.
func (st *Store) Blocked(s state.State) error {
	for _, err := range st.Obstacles(s) {
		e, ok := errors.AsType[*fs.PathError](err)
		if ok && slices.Contains([]string{CycleLock, TurnLock, stateLock, TurnsDir, OutboxDir}, filepath.Base(e.Path)) {
			return err
		}
	}
	return nil
}

// payloadsOf returns the names of the payloads a state still needs.
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

// usableFolder returns an error if a folder cannot be used.
func usableFolder(path string) error {
	if err := osfile.Folder(path); err != nil {
		return err
	}
	return allowed(path, unix.R_OK|unix.W_OK|unix.X_OK)
}

// usableFile returns an error if a file cannot be used. Locks need only be readable.
func usableFile(path string, limit int64) error {
	if err := osfile.File(path, limit); err != nil {
		return err
	}
	if strings.HasSuffix(path, ".lock") {
		return allowed(path, unix.R_OK)
	}
	return allowed(path, unix.R_OK|unix.W_OK)
}

// allowed returns an error if this user may not access a file in these ways.
func allowed(path string, ways uint32) error {
	if err := unix.Access(path, ways); err != nil {
		return &fs.PathError{Op: "use", Path: path, Err: err}
	}
	return nil
}
