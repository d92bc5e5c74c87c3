package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentstateloop/internal/members"
	"agentstateloop/internal/osfile"
	"agentstateloop/state"

	"golang.org/x/sys/unix"
)

// save writes next as the successor of old.
func (st *Store) save(old, next stored, recovery Recovery) error {
	if recovery.Reason == "" && old.Serial > 0 && len(old.Lines) == 0 && len(next.Lines) == 0 {
		settled := next
		settled.Settled = true
		data, memo, err := st.recent.encode(&settled)
		if err != nil {
			return err
		}
		same := settled
		same.State = old.WithTimesOf(next.State)
		if was, _, err := st.recent.encode(&same); err == nil && bytes.Equal(was, data) {
			return st.writeTimes(encoded{settled, data, memo}, old.Settled)
		}
	}
	return st.write(next)
}

// write replaces the state with s. It writes and fsyncs s under a temporary name, links the old
// state to .prev, renames the new file and fsyncs the directory.
func (st *Store) write(s stored) error {
	data, memo, err := st.recent.encode(&s)
	if err != nil {
		return err
	}
	f, err := st.writeNew(data)
	if err != nil {
		return err
	}
	if err := st.keepPrevious(); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := st.renameNew(f, encoded{s, data, memo}); err != nil {
		return err
	}
	return syncDir(st.Hook, st.Dir)
}

// encoded is a state with its JSON.
type encoded struct {
	state stored
	data  []byte
	memo  *members.Memo
}

// writeTimes replaces the state with s, which differs from the old state only in the times of a
// poll. It fsyncs the new file before it renames it, so the named file is whole after a power loss
// at any moment. It does not fsync the directory. A power loss may therefore restore the old state,
// or that of an earlier commit of this kind. They differ only in the times.
//
// The old state may have been renamed by a process that was killed before it fsynced the directory.
// The caller acts on that state, so the first commit of this kind makes it durable, as .prev as
// well. Later ones find it settled and leave .prev alone: only times have changed since.
func (st *Store) writeTimes(s encoded, settled bool) error {
	if !settled {
		if err := st.keepPrevious(); err != nil {
			return err
		}
		if err := syncDir(st.Hook, st.Dir); err != nil {
			return err
		}
	}
	f, err := st.writeNew(s.data)
	if err != nil {
		return err
	}
	return st.renameNew(f, s)
}

// writeNew writes and fsyncs data under a temporary name, and the identity of the new file with
// it. It returns the open file.
func (st *Store) writeNew(data []byte) (*os.File, error) {
	tmp := st.path(stateFile + ".tmp")
	f, err := createNew(tmp)
	if err != nil {
		return nil, err
	}
	if err := writeAndSync(st.Hook, f, bytes.NewReader(identified(data, osfile.Identify(f)))); err != nil {
		return nil, errors.Join(err, f.Close(), removeIfThere(tmp))
	}
	return f, nil
}

// identified adds the identity of its file to the content of a state file. Only in the file itself
// does it match: rsync, restic or tar can put back a file with an old content, but not the inode
// and the birth time that it had. A lock would not do, because rsync leaves an equal file alone.
func identified(data []byte, id osfile.Identity) []byte {
	if id == (osfile.Identity{}) {
		return data
	}
	return fmt.Appendf(bytes.TrimSuffix(data, []byte("}\n")), `,"file":"%s"}`+"\n", id)
}

// keepPrevious links the state to .prev.
func (st *Store) keepPrevious() error {
	prev, tmp := st.path(prevFile), st.path(prevFile+".tmp")
	if err := st.Hook.at("link", prev); err != nil {
		return err
	}
	err := os.Link(st.path(stateFile), tmp)
	if errors.Is(err, fs.ErrExist) {
		// Remove a leftover link first: renaming between links of one inode does nothing and would
		// leave both names.
		if err := errors.Join(moveFolderAway(tmp), removeIfThere(tmp)); err != nil {
			return err
		}
		err = os.Link(st.path(stateFile), tmp)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return renameOver(tmp, prev)
}

// renameNew renames the new file f, which holds s, to the name of the state.
func (st *Store) renameNew(f *os.File, s encoded) error {
	err := st.Hook.at("rename", st.path(stateFile))
	if err == nil {
		err = renameOver(st.path(stateFile+".tmp"), st.path(stateFile))
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	st.recent.store(f, s.data, s.state, s.memo)
	return nil
}

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
	return checkAccess(path, unix.R_OK|unix.W_OK|unix.X_OK)
}

// usableFile returns an error if a file cannot be used. Locks need only be readable.
func usableFile(path string, limit int64) error {
	if err := osfile.File(path, limit); err != nil {
		return err
	}
	if strings.HasSuffix(path, ".lock") {
		return checkAccess(path, unix.R_OK)
	}
	return checkAccess(path, unix.R_OK|unix.W_OK)
}

// checkAccess returns an error if this user may not access a file in these ways.
func checkAccess(path string, ways uint32) error {
	if err := unix.Access(path, ways); err != nil {
		return &fs.PathError{Op: "use", Path: path, Err: err}
	}
	return nil
}
