package doctor

import (
	"context"
	"errors"
	"io/fs"
	"maps"
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

const (
	longestSkew = 5 * time.Minute // between two clocks
	lateness    = 2 * time.Minute // of a poll

	// Free space, in bytes, below which doctor warns, and below which it finds an
	// error. A commit needs some KB, a mail some MB.
	littleSpace = 200 << 20
	noSpace     = 10 << 20
)

const clockHint = "set this machine's clock, and keep it with NTP"

// stateDirCheck looks at the state directory without writing to it.
type stateDirCheck struct {
	dir string
	err error // of reading the state
}

func (c stateDirCheck) run(context.Context) []Finding {
	const name = "state"
	info, err := os.Stat(c.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return c.beforeFirstPoll()
	}
	if err != nil {
		return []Finding{failure(name, "its folder must be yours, or set state_dir in [agent]", err)}
	}
	if !info.IsDir() {
		return []Finding{bad(Error, name, "move it away, or set state_dir in [agent]", "%s is not a folder", c.dir)}
	}
	var found []Finding
	if c.err != nil {
		found = append(found, failure(name, stateHint(c.err), c.err))
	}
	if mode := info.Mode().Perm(); mode != 0o700 {
		level := Info
		if mode&0o077 != 0 {
			level = Warn
		}
		found = append(found, bad(level, name, "chmod 700 "+c.dir, "%s has mode %04o: it holds your mail", c.dir, mode))
	}
	if file, owner := foreignFile(c.dir); file != "" {
		found = append(found, bad(Error, name, "sudo chown -R $(id -un) "+c.dir,
			"%s belongs to user %d and not to you: did a poll run under sudo?", file, owner))
	} else if err := unix.Access(c.dir, unix.W_OK|unix.X_OK); err != nil {
		found = append(found, bad(Error, name, "its folder must be yours, on a file system that is mounted for writing", "%s cannot be written: %v", c.dir, err))
	}
	if aside, _ := filepath.Glob(filepath.Join(config.QuoteGlob(c.dir), "state.json.corrupt-*")); len(aside) > 0 {
		found = append(found, bad(Info, name, "remove it when you have looked at it; see docs/files.md",
			"%s was not usable and has been set aside", filepath.Base(aside[len(aside)-1])))
	}
	found = append(found, checkFileSystem(c.dir)...)
	if len(found) == 0 {
		found = append(found, good(name, "%s, mode 0700, writable, on a file system with room, links and locks", c.dir))
	}
	return found
}

// beforeFirstPoll is for a directory that the first poll makes.
func (c stateDirCheck) beforeFirstPoll() []Finding {
	parent := filepath.Dir(c.dir)
	for {
		if _, err := os.Stat(parent); err == nil || parent == filepath.Dir(parent) {
			break
		}
		parent = filepath.Dir(parent)
	}
	if err := unix.Access(parent, unix.W_OK|unix.X_OK); err != nil {
		return []Finding{bad(Error, "state", "make it yourself, or set state_dir in [agent]", "%s does not exist, and cannot be made in %s: %v", c.dir, parent, err)}
	}
	return append([]Finding{bad(Info, "state", "`agentstateloop poll` makes it", "%s does not exist yet", c.dir)}, checkFileSystem(parent)...)
}

// foreignFile finds a file in dir, or dir itself, that belongs to another user.
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

// checkFileSystem looks for what a commit needs: room, hard links and flock.
func checkFileSystem(dir string) []Finding {
	const name = "state"
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return []Finding{bad(Warn, name, "", "its file system cannot be examined: %v", err)}
	}
	var found []Finding
	switch kind := fileSystem(&stat); {
	case slices.Contains([]string{"vfat", "msdos", "exfat"}, kind):
		found = append(found, bad(Error, name, "set state_dir in [agent] to a folder on a local disk of Linux or macOS", "%s is on %s, which has no hard links", dir, kind))
	case slices.Contains([]string{"nfs", "smb", "cifs", "smb2", "smbfs", "webdav", "afpfs"}, kind):
		found = append(found, bad(Warn, name, "set state_dir in [agent] to a folder on a local disk", "%s is on %s, where locks may not hold", dir, kind))
	}
	free := uint64(stat.Bavail) * uint64(stat.Bsize)
	switch hint := "make room: a poll that cannot write accepts nothing"; {
	case free < noSpace:
		found = append(found, bad(Error, name, hint, "%d MiB are free on its file system", free>>20))
	case free < littleSpace:
		found = append(found, bad(Warn, name, hint, "%d MiB are free on its file system", free>>20))
	}
	if stat.Files > 0 && stat.Ffree < 100 {
		found = append(found, bad(Error, name, "remove files: it is full of small ones", "%d files can still be made on its file system", stat.Ffree))
	}
	return found
}

// clockCheck compares the clock with that of the last commit. The checks of mail
// and mesh compare it with others.
type clockCheck struct {
	lastStep time.Time
	now      func() time.Time
}

func (c clockCheck) run(context.Context) []Finding {
	const name = "clock"
	now := c.now()
	if ahead := c.lastStep.Sub(now); ahead > longestSkew {
		return []Finding{bad(Warn, name, clockHint, "it is %s behind the last poll: it was set back, or was wrong then", terminal.Short(ahead))}
	}
	return []Finding{good(name, "%s", now.Local().Format("2006-01-02 15:04:05 -0700 MST"))}
}

// pollsCheck reports what the state says of polls, HALT, credentials and
// messages.
type pollsCheck struct {
	state state.State
	err   error // of reading it
	mode  string
	dir   string
	now   func() time.Time
}

func (c pollsCheck) run(context.Context) []Finding {
	if c.err != nil {
		return []Finding{skip("polls", "the state could not be read", "see state")}
	}
	s, now := c.state, c.now()
	found := []Finding{c.polls(now)}
	if s.Halted() {
		found = append(found, bad(Warn, "halt", terminal.LiftedBy(cycle.HaltedBy(s))+" lifts it", "HALT is on: no turns, no mail"))
	}
	for _, credential := range slices.Sorted(maps.Keys(s.Credentials)) {
		f := s.Credentials[credential]
		found = append(found, bad(Warn, "credentials", "correct it: each poll reads it again",
			"%s was refused %s in a row, since %s: %s", credential, terminal.Count(f.Failures, "time"), terminal.Clock(f.Since, now), f.Reason))
	}
	if s.Quarantined > 0 {
		found = append(found, bad(Info, "quarantine", "`agentstateloop inbox list --quarantined` shows why", "%s did not pass the gate", terminal.Count(s.Quarantined, "message")))
	}
	if s.Undeliverable > 0 {
		found = append(found, bad(Warn, "outbox", "`agentstateloop history` has the reasons", "%s could not be delivered", terminal.Count(s.Undeliverable, "message")))
	}
	return found
}

func (c pollsCheck) polls(now time.Time) Finding {
	const name = "polls"
	s := c.state
	switch {
	case s.NextDue.IsZero():
		return bad(Info, name, "`agentstateloop poll --dry-run` shows what the first would do: it reads the mail that is unread, and from then on what comes", "none yet")
	case now.Sub(s.NextDue) > lateness:
		hint := terminal.AskForPolls(c.mode == cycle.ModeNone) + " the file log in the state directory has a line for each poll; `fuser -v " +
			filepath.Join(c.dir, store.CycleLock) + "` finds a poll that hangs"
		return bad(Warn, name, hint, "the poll of %s (%s) did not come", terminal.Clock(s.NextDue, now), terminal.Distance(s.NextDue, now))
	}
	return good(name, "the last change was %s, the next poll is due %s", terminal.Distance(s.LastStep, now), terminal.Distance(s.NextDue, now))
}
