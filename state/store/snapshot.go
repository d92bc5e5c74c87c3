package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentstateloop/internal/order"
	"agentstateloop/internal/osfile"
	"agentstateloop/state"
)

// Snapshot is the content of the directory at one commit: state.json, the history up to it, and each
// file that the state names. Later commits do not change it.
type Snapshot struct {
	State   state.State
	Files   []SnapshotFile // by name
	Skipped []string       // names that are not regular files, or cannot be read

	dir  string
	lock *Lock
}

// SnapshotFile is one file of a snapshot.
type SnapshotFile struct {
	Name string // below the directory
	Size int64
}

// ErrNoState reports that the directory has no state yet.
var ErrNoState = errors.New("the agent has no state yet")

// snapshotDir has links to the files of a snapshot. A link costs no space, and keeps a file that a
// poll removes meanwhile.
const snapshotDir = "snapshot.tmp"

// snapshotTries is how often Snapshot begins again because another process committed meanwhile.
const snapshotTries = 5

// Snapshot takes a snapshot. It holds state.lock for milliseconds. If other processes commit all the
// time, it links the payloads under the lock as well, which takes about 10 µs for each. The caller
// must close the snapshot. The error is ErrNoState before the first commit. Snapshot returns nil if
// another process has one.
//
// It leaves out what another machine does not need: locks, logs, copies of the crontab, state.json.prev,
// files that were set aside, and of a turn its context folder, its prompt and the records of its
// process. It leaves out message-id.key, because that is a secret.
func (st *Store) Snapshot(ctx context.Context, now time.Time) (*Snapshot, error) {
	if _, err := os.Lstat(st.path(stateFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoState
	}
	lock, err := st.TryLock(BackupLock)
	if err != nil || lock == nil {
		return nil, err
	}
	s := &Snapshot{dir: st.path(snapshotDir), lock: lock}
	for try := 1; ; try++ {
		done, err := st.link(ctx, now, s, try == snapshotTries)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		if done {
			return s, nil
		}
	}
}

// Close removes the links.
func (s *Snapshot) Close() error { return errors.Join(os.RemoveAll(s.dir), s.lock.Unlock()) }

// Open opens a file of the snapshot.
func (s *Snapshot) Open(f SnapshotFile) (*os.File, error) {
	return osfile.Open(filepath.Join(s.dir, filepath.FromSlash(f.Name)))
}

// link fills the snapshot. It reports whether the snapshot is consistent: no commit came while it
// linked the payloads.
func (st *Store) link(ctx context.Context, now time.Time, s *Snapshot, underLock bool) (done bool, err error) {
	if err := os.RemoveAll(s.dir); err != nil { // of a process that was killed, too
		return false, err
	}
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		return false, err
	}
	s.Files, s.Skipped = nil, nil
	lock, err := st.lockState(ctx)
	if err != nil {
		return false, err
	}
	before, err := st.linkState(now, s)
	if err == nil && underLock {
		err = st.linkPayloads(s)
	}
	if err := errors.Join(err, lock.Unlock()); err != nil || underLock {
		return err == nil, err
	}
	if err := st.linkPayloads(s); err != nil {
		return false, err
	}
	after, err := st.Stamp()
	return err == nil && after.Same(before), err
}

// linkState links the files that change under state.lock, which the caller holds.
func (st *Store) linkState(now time.Time, s *Snapshot) (Stamp, error) {
	old, recovery, err := st.loadStored()
	if err != nil {
		return Stamp{}, err
	}
	if recovery.Reason != "" {
		return Stamp{}, fmt.Errorf("%s cannot be used: %s", st.path(stateFile), recovery.Reason)
	}
	if err := st.finishEarlier(old, recovery, now); err != nil {
		return Stamp{}, err
	}
	s.State = old.State
	stamp, err := st.Stamp()
	if err != nil {
		return Stamp{}, err
	}
	names, err := filepath.Glob(st.path("history-*.jsonl"))
	if err != nil {
		return Stamp{}, err
	}
	for _, name := range append(names, st.path(stateFile), st.path(MemoryFile), st.path(MemoryPrevFile)) {
		if err := st.linkFile(s, filepath.Base(name)); err != nil {
			return Stamp{}, err
		}
	}
	return stamp, errors.Join(st.linkFolder(s, MemoryDir, all), st.linkFolder(s, MemoryPrevDir, all), st.linkNudges(s))
}

// linkNudges links the nudges and messages that the state has not taken.
func (st *Store) linkNudges(s *Snapshot) error {
	list, err := st.Nudges(s.State)
	if err != nil {
		return err
	}
	for _, n := range list.New {
		list.Waiting = append(list.Waiting, n.Name)
	}
	for _, name := range list.Waiting {
		if err := st.linkFile(s, path.Join(NudgesDir, name)); err != nil {
			return err
		}
	}
	return nil
}

// linkPayloads links the files that the state names, and the others of their folders.
func (st *Store) linkPayloads(s *Snapshot) error {
	for _, folder := range []string{MessagesDir, OutboxDir, SentDir, QuarantineDir} {
		if err := st.linkFolder(s, folder, all); err != nil {
			return err
		}
	}
	for _, turn := range s.State.TurnsInUse() {
		if err := st.linkFolder(s, path.Join(TurnsDir, turn), neededOfTurn(s.State)); err != nil {
			return err
		}
	}
	if err := st.linkFile(s, ModelsFile); err != nil {
		return err
	}
	order.Sort(s.Files, func(a, b SnapshotFile) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// ModelsFile has the lessons of the built-in loop about models. It may be deleted: the next turn then
// learns them again. It is replaced without state.lock.
const ModelsFile = "models.json"

// neededOfTurn selects the files of a turn. The process of an attempt and its lock belong to this
// machine. An agent that still works changes its output, which counts only once it has submitted.
func neededOfTurn(s state.State) func(name string) bool {
	works := ""
	if s.Turn.InAttempt() && s.Turn.Submitted == "" {
		works = path.Join(AttemptDir(s.Turn.TurnID, s.Turn.Epoch), "output")
	}
	return func(name string) bool {
		parts := strings.Split(name, "/") // turns/ID/EPOCH/…
		if len(parts) < 4 {
			return true
		}
		if _, err := strconv.ParseUint(parts[2], 10, 64); err != nil {
			return true
		}
		return name != works && !slices.Contains([]string{"context", "prompt", "process", "alive", "live.json", "feed.jsonl"}, parts[3])
	}
}

// TurnFiles returns the files of a turn that a later attempt may need, on this machine or another.
func (st *Store) TurnFiles(s state.State, turn string) (names []string) {
	needed := neededOfTurn(s)
	var add func(folder string)
	add = func(folder string) {
		entries, _ := os.ReadDir(st.path(folder)) // a missing folder has no files
		for _, e := range entries {
			switch name := path.Join(folder, e.Name()); {
			case !needed(name) || strings.HasSuffix(name, ".tmp"):
			case e.IsDir():
				add(name)
			default:
				names = append(names, name)
			}
		}
	}
	if folder := path.Join(TurnsDir, turn); osfile.Folders(st.Dir, path.Join(folder, "file")) == nil {
		add(folder)
	}
	return names
}

func all(string) bool { return true }

// linkFolder links the wanted files of a folder, and of the folders in it. A folder or file that is
// missing, or that is not wanted, is left out.
func (st *Store) linkFolder(s *Snapshot, folder string, wanted func(name string) bool) error {
	if err := osfile.Folders(st.Dir, path.Join(folder, "file")); errors.Is(err, osfile.ErrKind) {
		s.Skipped = append(s.Skipped, folder)
		return nil
	} else if err != nil {
		return err
	}
	entries, err := os.ReadDir(st.path(folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if errors.Is(err, fs.ErrPermission) {
		s.Skipped = append(s.Skipped, folder)
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(folder, e.Name())
		if !wanted(name) || strings.HasSuffix(name, ".tmp") {
			continue
		}
		link := st.linkFile
		if e.IsDir() {
			link = func(s *Snapshot, name string) error { return st.linkFolder(s, name, wanted) }
		}
		if err := link(s, name); err != nil {
			return err
		}
	}
	return nil
}

// linkFile links one file. It leaves out a missing file, and skips a file in a folder that is not a
// regular one or cannot be read.
func (st *Store) linkFile(s *Snapshot, name string) error {
	f, err := osfile.Open(st.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if (errors.Is(err, osfile.ErrKind) || errors.Is(err, fs.ErrPermission)) && strings.Contains(name, "/") {
		s.Skipped = append(s.Skipped, name)
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	if strings.HasPrefix(name, "history-") {
		if size, err = endOfLastLine(f); err != nil {
			return err
		}
	}
	place := filepath.Join(s.dir, filepath.FromSlash(name))
	if err := st.Hook.at("link", place); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(place), 0o700); err != nil {
		return err
	}
	if err := os.Link(st.path(name), place); errors.Is(err, fs.ErrNotExist) {
		return nil // it was removed just now
	} else if err != nil {
		return err
	}
	linked, err := os.Lstat(place)
	if err != nil {
		return err
	}
	if !os.SameFile(info, linked) { // it was replaced just now, so size is the size of another file
		if err := os.Remove(place); err != nil {
			return err
		}
		return st.linkFile(s, name)
	}
	s.Files = append(s.Files, SnapshotFile{Name: name, Size: size})
	return nil
}
