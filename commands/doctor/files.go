package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// filesCheck reads the files that the state names, and compares them with their sums.
type filesCheck struct{ agent *cycle.Agent }

func (c filesCheck) run(context.Context) []Finding {
	const name = "files"
	n, damaged, err := c.agent.CheckFiles()
	switch {
	case err != nil:
		return []Finding{failure(name, "see docs/files.md", err)}
	case len(damaged) == 0:
		return []Finding{good(name, "%s of messages and mails, all intact", terminal.Count(n, "file"))}
	}
	var found []Finding
	for _, e := range damaged[:min(len(damaged), maxBreaks)] {
		found = append(found, bad(Error, name, "a poll recreates or fetches it again when needed, or reports the loss; if you did not change it, check the disk", "%v", e))
	}
	if more := len(damaged) - len(found); more > 0 {
		found = append(found, bad(Error, name, "", "%s more", terminal.Count(more, "file")))
	}
	return found
}

// littleSpace and noSpace are the free space, in bytes, below which doctor reports a warning and an
// error. A commit needs some KB, a mail some MB.
const (
	littleSpace = 200 << 20
	noSpace     = 10 << 20

	// fewFiles is the number of free inodes below which doctor reports an error.
	fewFiles = 100
)

// checkFileSystem checks that the file system of dir has the features a commit needs: free space,
// hard links and flock.
func checkFileSystem(dir string) []Finding {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return []Finding{bad(Warn, "state", "", "cannot examine the file system of %s: %v", dir, err)}
	}
	return slices.Concat(checkType(dir, fileSystem(&stat)), checkSpace(&stat))
}

// checkType checks that a type of file system has hard links and flock.
func checkType(dir, kind string) []Finding {
	switch kind {
	case "vfat", "msdos", "exfat":
		return []Finding{bad(Error, "state", "set state_dir in [agent] to a folder on a local disk of Linux or macOS", "%s is on %s, which has no hard links", dir, kind)}
	case "nfs", "smb", "cifs", "smb2", "smbfs", "webdav", "afpfs":
		return []Finding{bad(Warn, "state", "set state_dir in [agent] to a folder on a local disk", "%s is on %s, where file locks may not work", dir, kind)}
	}
	return nil
}

// checkSpace checks that a file system has room for more bytes and more files.
func checkSpace(stat *unix.Statfs_t) []Finding {
	var found []Finding
	free := uint64(stat.Bavail) * uint64(stat.Bsize)
	if free < littleSpace {
		level := Warn
		if free < noSpace {
			level = Error
		}
		found = append(found, bad(level, "state", "free disk space: a poll that cannot write accepts no mail", "the file system of the state directory has only %d MiB free", free>>20))
	}
	if stat.Files > 0 && stat.Ffree < fewFiles {
		found = append(found, bad(Error, "state", "remove small files: the file system is running out of inodes", "the file system of the state directory has room for only %d more files", stat.Ffree))
	}
	return found
}

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
		return []Finding{failure(name, "make its folder accessible, or set state_dir in [agent]", err)}
	}
	if !info.IsDir() {
		return []Finding{bad(Error, name, "move the file away, or set state_dir in [agent]", "%s is not a folder", c.dir)}
	}
	var found []Finding
	if c.err != nil {
		found = append(found, failure(name, stateHint(c.err), c.err))
	}
	found = slices.Concat(found, c.checkMode(info.Mode().Perm()), c.checkAccess(), c.checkNudges(), c.checkObstacles(), c.checkSetAsideFiles(), c.checkIDKey(), checkFileSystem(c.dir))
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
	return []Finding{bad(level, "state", "chmod 700 "+c.dir, "%s has mode %04o, but it contains your mail", c.dir, mode).fixedBy(setMode(c.dir, 0o700))}
}

// checkAccess checks that the directory and its files belong to the user and that the directory is
// writable.
func (c stateDirCheck) checkAccess() []Finding {
	if file, owner := fileOfAnotherUser(c.dir); file != "" {
		return []Finding{bad(Error, "state", "sudo chown -R $(id -un) "+c.dir,
			"%s belongs to user %d, not to you: did a poll run under sudo?", file, owner)}
	}
	if err := unix.Access(c.dir, unix.W_OK|unix.X_OK); err != nil {
		return []Finding{bad(Error, "state", "make it writable; it must be yours, on a file system mounted read-write", "%s is not writable: %v", c.dir, err)}
	}
	return nil
}

// checkObstacles looks for unusable files and folders with our names.
func (c stateDirCheck) checkObstacles() []Finding {
	var found []Finding
	for _, err := range c.store.Obstacles(c.state) {
		hint := "move it away; the next poll creates a new one (see docs/files.md)"
		if errors.Is(err, fs.ErrPermission) {
			hint = "make it readable and writable for you (chmod u+rw; u+rwx for a folder)"
		}
		found = append(found, bad(Error, "state", hint, "%v", err).fixedBy(restoreAccess(err)))
	}
	return found
}

// restoreAccess returns the repair that restores our access to a file or folder of ours, or nil for
// any other obstacle.
func restoreAccess(err error) *repair {
	obstacle, ok := errors.AsType[*fs.PathError](err)
	if !ok || !errors.Is(err, fs.ErrPermission) {
		return nil
	}
	info, ok := ownFile(obstacle.Path)
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
	return []Finding{bad(Info, "state", "the next poll creates it", "%s is missing: programs cannot leave a nudge there", path).fixedBy(makeFolder(path))}
}

// setAsideFiles are patterns for the names of files and folders that were set aside.
var setAsideFiles = []struct{ pattern, what string }{
	{"*.folder-*", "a folder in place of a file"},
	{"history-*.jsonl.wrong-*", "an unusable history file"},
	{"message-id.key.damaged-*", "an unusable Message-ID key"},
	{"state.json.corrupt-*", "an unusable state file"},
}

// checkSetAsideFiles looks for files and folders that were set aside.
func (c stateDirCheck) checkSetAsideFiles() []Finding {
	var found []Finding
	for _, a := range setAsideFiles {
		aside, _ := filepath.Glob(filepath.Join(config.QuoteGlob(c.dir), a.pattern))
		if len(aside) > 0 {
			found = append(found, bad(Info, "state", "inspect it, then remove it; see docs/files.md",
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
	return append([]Finding{bad(Info, "state", "`agentstateloop poll` creates it", "%s does not exist yet", c.dir).fixedBy(makeFolder(c.dir))}, checkFileSystem(parent)...)
}

// fileOfAnotherUser returns a file in dir, or dir itself, that belongs to another user. file is ""
// if all files belong to the user.
func fileOfAnotherUser(dir string) (file string, owner uint32) {
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

// lossMatters is how long doctor reports that the key of our Message-IDs was replaced. After that
// the operator's mails answer newer ones.
const lossMatters = 14 * 24 * time.Hour

// checkIDKey checks the key of our Message-IDs. It shows no part of the key.
func (c stateDirCheck) checkIDKey() []Finding {
	const name = "state"
	path := c.store.Path(store.IDKeyFile)
	answers := fmt.Sprintf("replies to earlier mails need @%s in the subject, or the agent's address in To", c.handle)
	key, err := c.store.ReadIDKey()
	switch {
	case errors.Is(err, fs.ErrNotExist) && (c.err != nil || !c.state.IDsKeyed):
		return nil // the next poll creates the first key
	case errors.Is(err, fs.ErrNotExist):
		return []Finding{bad(Warn, name, "restore it from a backup before the next poll, which otherwise creates a new one; then "+answers, "%s is missing", path)}
	case err != nil:
		return []Finding{bad(Warn, name, "restore it from a backup before the next poll, which otherwise sets it aside; then "+answers, "%v", err)}
	}
	var found []Finding
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		found = append(found, bad(Warn, name, "chmod 600 "+path, "%s has mode %04o, but it contains a secret", path, info.Mode().Perm()).fixedBy(makePrivate(path)))
	}
	lost := key.Cause == store.KeyLost || key.Cause == store.KeyDamaged
	if lost && c.now().Sub(key.Made) < lossMatters {
		found = append(found, bad(Info, name, "", "%s was %s, and a new one was created on %s: %s",
			store.IDKeyFile, key.Cause, key.Made.Local().Format(time.DateOnly), answers))
	}
	return found
}
