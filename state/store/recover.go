package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"agentstateloop/internal/osfile"
	"agentstateloop/state"
)

// Recovery describes the state that Commit found.
type Recovery struct {
	// Reason is why state.json had to be rebuilt, in words, or "" if it was intact. The caller that
	// commits steps a Recovered event for it, so the operator is informed once.
	Reason string

	// Copied is set if the state was read from a copy of its file. Somebody has put back a backup,
	// or an old copy of the directory, and the state may be older than the mailbox. The caller that
	// commits steps a Restored event for it.
	Copied bool
}

// load is loadStored for a caller that does not need the chain.
func (st *Store) load() (state.State, Recovery, error) {
	s, recovery, err := st.loadStored()
	return s.State, recovery, err
}

// loadStored reads the state. It rebuilds the state in memory if state.json is unusable, or is
// missing although a .prev or a history exists. It rebuilds from .prev with the newer history
// applied, or, if .prev is unusable too, from the history alone, in IDLE (docs/design.md,
// "Recovery"). The chain then continues at the end of the history. loadStored never silently starts
// with an empty state.
func (st *Store) loadStored() (stored, Recovery, error) {
	s, err := st.parseStored(stateFile)
	if err == nil && s.copied {
		return st.catchUp(s)
	}
	if err == nil {
		return s, Recovery{}, nil
	}
	missing := errors.Is(err, fs.ErrNotExist)
	if !missing && !errors.Is(err, errCorrupt) {
		return stored{}, Recovery{}, err
	}
	prev, prevErr := st.parseStored(prevFile)
	if prevErr != nil && !errors.Is(prevErr, fs.ErrNotExist) && !errors.Is(prevErr, errCorrupt) {
		return stored{}, Recovery{}, prevErr
	}
	lines, histErr := st.allLines()
	if histErr != nil {
		return stored{}, Recovery{}, histErr
	}
	lines, torn := state.Whole(lines)
	if missing && errors.Is(prevErr, fs.ErrNotExist) && len(lines) == 0 {
		return stored{State: state.New(st.Agent, NewID())}, Recovery{}, nil
	}
	end, histErr := st.newestSum(torn)
	if histErr != nil {
		return stored{}, Recovery{}, histErr
	}
	reason := "it could not be read"
	if missing {
		reason = "it was missing"
	}
	if prevErr == nil {
		return stored{State: state.Replay(prev.State, lines), Chain: end}, Recovery{Reason: reason, Copied: prev.copied}, nil
	}
	return stored{State: state.Rebuild(state.New(st.Agent, NewID()), lines), Chain: end}, Recovery{Reason: reason + ", like its copy"}, nil
}

// catchUp returns a copied state with the newer history applied. Somebody has put only state.json
// back, or has made the copy while commits went on. A serial is never used twice.
func (st *Store) catchUp(s stored) (stored, Recovery, error) {
	lines, err := st.allLines()
	if err != nil {
		return stored{}, Recovery{}, err
	}
	lines, torn := state.Whole(lines)
	if len(lines) == 0 || lines[len(lines)-1].Serial <= s.Serial {
		return s, Recovery{Copied: true}, nil
	}
	end, err := st.newestSum(torn)
	if err != nil {
		return stored{}, Recovery{}, err
	}
	return stored{State: state.Replay(s.State, lines), Chain: end}, Recovery{Reason: "it is older than the history", Copied: true}, nil
}

// Hook, if not nil, is called before each step that touches the disk, with the step ("write",
// "fsync", "rename", "link", "remove", "truncate", "fsyncdir", "append", "done") and the path. An
// error it returns becomes the error of that step. The simulator uses it to inject crashes and
// failures.
type Hook func(step, path string) error

func (h Hook) at(step, path string) error {
	if h == nil {
		return nil
	}
	return h(step, path)
}

// writeDurably writes r to path through a temporary file, fsync, rename and fsync of the directory.
// After it returns nil, the whole file is on disk under that name. After an error, the file of that
// name is unchanged. A failed fsync is never retried on the same file, because the kernel has
// already dropped the pages it could not write.
func writeDurably(hook Hook, path string, r io.Reader) error {
	tmp := path + ".tmp"
	if err := writeSynced(hook, tmp, r); err != nil {
		return errors.Join(err, removeIfThere(tmp))
	}
	if err := hook.at("rename", path); err != nil {
		return err
	}
	if err := renameOver(tmp, path); err != nil {
		return err
	}
	return syncDir(hook, filepath.Dir(path))
}

// renameOver renames a file over path. It replaces any file or folder there.
func renameOver(tmp, path string) error {
	if os.Rename(tmp, path) == nil {
		return nil
	}
	if err := moveFolderAway(path); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// moveFolderAway renames a folder, with its content, that has the name of one of our files. Other kinds of
// files can be replaced without it.
func moveFolderAway(path string) error {
	if info, err := os.Lstat(path); err != nil || !info.IsDir() {
		return nil
	}
	return os.Rename(path, path+setAsideFolder+NewID())
}

// setAsideFolder follows the original name in the new name of a folder that moveFolderAway renamed.
const setAsideFolder = ".folder-"

// writeSynced writes r to a new file at path and fsyncs it.
func writeSynced(hook Hook, path string, r io.Reader) error {
	f, err := openSynced(hook, path, r)
	if err != nil {
		return err
	}
	return f.Close()
}

// openSynced is writeSynced, but returns the open file.
func openSynced(hook Hook, path string, r io.Reader) (*os.File, error) {
	f, err := createNew(path)
	if err != nil {
		return nil, err
	}
	if err := writeAndSync(hook, f, r); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// createNew creates a file. It replaces any existing file or folder.
func createNew(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if !errors.Is(err, fs.ErrExist) {
		return f, err
	}
	if err := errors.Join(moveFolderAway(path), removeIfThere(path)); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

func writeAndSync(hook Hook, f *os.File, r io.Reader) error {
	if err := hook.at("write", f.Name()); err != nil {
		return err
	}
	if _, err := io.Copy(f, r); err != nil {
		return err // the error names the file
	}
	if err := hook.at("fsync", f.Name()); err != nil {
		return err
	}
	return f.Sync()
}

// syncDir fsyncs a directory, which makes the names in it durable.
func syncDir(hook Hook, dir string) error {
	if err := hook.at("fsyncdir", dir); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("fsync %s: %w", dir, err)
	}
	return nil
}

// makeDirDurably creates a directory, mode 0700, and its missing parents. It fsyncs the parent of
// each: if a power loss removes a directory, the fsynced files in it are lost too.
func makeDirDurably(hook Hook, dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := makeDirDurably(hook, parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		if info, statErr := os.Stat(dir); statErr == nil && info.IsDir() {
			return nil // another process was faster
		}
		return err
	}
	return syncDir(hook, filepath.Dir(dir))
}

// makeFolder makes a folder of the agent's directory. Its parents must be real folders, not links.
// The error wraps regular.ErrKind if anything else is in their place.
func (st *Store) makeFolder(name string) error {
	if err := osfile.Folders(st.Dir, filepath.Join(name, "file")); err != nil {
		return err
	}
	return makeDirDurably(st.Hook, st.path(name))
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
