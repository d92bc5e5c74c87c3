package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"agentstateloop/commands/config"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// stateDirCheck checks the state directory. It does not write to it.
type stateDirCheck struct {
	dir    string
	store  *store.Store
	state  state.State
	err    error // of reading the state
	handle string
	now    func() time.Time
}

func (c stateDirCheck) run(context.Context) []Finding {
	const name = "state"
	info, err := os.Stat(c.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return c.beforeFirstPoll()
	}
	if err != nil {
		return []Finding{failure(name, "make its folder yours, or set state_dir in [agent]", err)}
	}
	if !info.IsDir() {
		return []Finding{bad(Error, name, "move the file away, or set state_dir in [agent]", "%s is not a folder", c.dir)}
	}
	var found []Finding
	if c.err != nil {
		found = append(found, failure(name, stateHint(c.err), c.err))
	}
	found = slices.Concat(found, c.checkMode(info.Mode().Perm()), c.checkAccess(), c.checkNudges(), c.checkObstacles(), c.checkSetAside(), c.checkIDKey(), checkFileSystem(c.dir))
	if len(found) == 0 {
		found = append(found, good(name, "%s, mode 0700, writable, with free space, hard links and locks", c.dir))
	}
	return found
}

// checkMode checks that only the user can enter the directory.
func (c stateDirCheck) checkMode(mode os.FileMode) []Finding {
	if mode == 0o700 {
		return nil
	}
	level := Info
	if mode&0o077 != 0 {
		level = Warn
	}
	return []Finding{bad(level, "state", "chmod 700 "+c.dir, "%s has mode %04o, but it holds your mail", c.dir, mode).by(setMode(c.dir, 0o700))}
}

// checkAccess checks that the directory and its files belong to the user and that the directory is
// writable.
func (c stateDirCheck) checkAccess() []Finding {
	if file, owner := foreignFile(c.dir); file != "" {
		return []Finding{bad(Error, "state", "sudo chown -R $(id -un) "+c.dir,
			"%s belongs to user %d, not to you: did a poll run under sudo?", file, owner)}
	}
	if err := unix.Access(c.dir, unix.W_OK|unix.X_OK); err != nil {
		return []Finding{bad(Error, "state", "make it yours, on a file system that is mounted read-write", "%s is not writable: %v", c.dir, err)}
	}
	return nil
}

// checkObstacles looks for unusable files and folders with our names.
func (c stateDirCheck) checkObstacles() []Finding {
	var found []Finding
	for _, err := range c.store.Obstacles(c.state) {
		hint := "move away what is there; the next poll makes what it needs (see docs/files.md)"
		if errors.Is(err, fs.ErrPermission) {
			hint = "give your user back the right to read and write it (chmod u+rw; u+rwx for a folder)"
		}
		found = append(found, bad(Error, "state", hint, "%v", err).by(giveBack(err)))
	}
	return found
}

// giveBack returns the repair that restores our access to a file or folder of ours, or nil for any
// other obstacle.
func giveBack(err error) *repair {
	obstacle, ok := errors.AsType[*fs.PathError](err)
	if !ok || !errors.Is(err, fs.ErrPermission) {
		return nil
	}
	info, ok := ours(obstacle.Path)
	switch {
	case !ok:
		return nil
	case info.IsDir():
		return setMode(obstacle.Path, 0o700)
	}
	return setMode(obstacle.Path, 0o600)
}

// checkNudges checks that the folder for the files of other programs exists.
func (c stateDirCheck) checkNudges() []Finding {
	path := c.store.Path(store.NudgesDir)
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return []Finding{bad(Info, "state", "the next poll makes it", "%s is missing: programs cannot leave a nudge there", path).by(makeFolder(path))}
}

// asides are patterns for the names of files and folders that were set aside.
var asides = []struct{ pattern, what string }{
	{"*.folder-*", "a folder in the place of a file"},
	{"history-*.jsonl.wrong-*", "something in the place of a file of the history"},
	{"message-id.key.damaged-*", "an unusable key of our Message-IDs"},
	{"state.json.corrupt-*", "an unusable state"},
}

// checkSetAside looks for files and folders that were set aside.
func (c stateDirCheck) checkSetAside() []Finding {
	var found []Finding
	for _, a := range asides {
		aside, _ := filepath.Glob(filepath.Join(config.QuoteGlob(c.dir), a.pattern))
		if len(aside) > 0 {
			found = append(found, bad(Info, "state", "remove it after you have looked at it; see docs/files.md",
				"%s was set aside as %s", a.what, filepath.Base(aside[len(aside)-1])))
		}
	}
	return found
}

// beforeFirstPoll returns the findings for a directory that does not exist yet.
func (c stateDirCheck) beforeFirstPoll() []Finding {
	parent := filepath.Dir(c.dir)
	for {
		if _, err := os.Stat(parent); err == nil || parent == filepath.Dir(parent) {
			break
		}
		parent = filepath.Dir(parent)
	}
	if err := unix.Access(parent, unix.W_OK|unix.X_OK); err != nil {
		return []Finding{bad(Error, "state", "create it yourself, or set state_dir in [agent]", "%s does not exist and cannot be created in %s: %v", c.dir, parent, err)}
	}
	return append([]Finding{bad(Info, "state", "`agentstateloop poll` creates it", "%s does not exist yet", c.dir).by(makeFolder(c.dir))}, checkFileSystem(parent)...)
}

// foreignFile returns a file in dir, or dir itself, that belongs to another user. file is "" if all
// files belong to the user.
func foreignFile(dir string) (file string, owner uint32) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", 0
	}
	paths := []string{dir}
	for _, e := range entries {
		paths = append(paths, filepath.Join(dir, e.Name()))
	}
	for _, path := range paths {
		info, err := os.Lstat(path)
		if err != nil {
			continue
		}
		if sys, ok := info.Sys().(*syscall.Stat_t); ok && int(sys.Uid) != os.Geteuid() {
			return path, sys.Uid
		}
	}
	return "", 0
}

// stateHint returns the hint for an unreadable state.
func stateHint(err error) string {
	if errors.Is(err, store.ErrOtherAgent) {
		return "give each agent a state_dir of its own in [agent]"
	}
	return "no poll runs until this is fixed; see docs/files.md"
}
