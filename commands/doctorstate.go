package commands

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

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
)

const (
	longestSkew = 5 * time.Minute // between two clocks, before doctor warns
	lateness    = 2 * time.Minute // of a poll, before doctor warns

	// Free space, in bytes, below which doctor warns, and below which it is an
	// error: a commit needs some KB, a mail some MB.
	littleSpace = 200 << 20
	noSpace     = 10 << 20
)

// checkStateDir looks at the state directory without writing to it.
func (d *patient) checkStateDir(context.Context) []finding {
	const check = "state"
	if d.agent == nil {
		return unknown(check)
	}
	dir := d.agent.Store.Dir
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return d.checkStateToCome(dir)
	}
	if err != nil {
		return []finding{failure(check, "its folder must be yours, or set state_dir in [agent]", err)}
	}
	if !info.IsDir() {
		return []finding{finds(levelError, check, "move it away, or set state_dir in [agent]", "%s is no folder", dir)}
	}
	var found []finding
	if d.stateErr != nil {
		found = append(found, failure(check, "no poll runs before this is mended; see docs/files.md", d.stateErr))
	}
	if mode := info.Mode().Perm(); mode != 0o700 {
		level := levelInfo
		if mode&0o077 != 0 {
			level = levelWarn
		}
		found = append(found, finds(level, check, "chmod 700 "+dir, "%s has mode %04o: it holds your mail", dir, mode))
	}
	if name, owner := foreignFile(dir); name != "" {
		found = append(found, finds(levelError, check, "sudo chown -R $(id -un) "+dir,
			"%s belongs to user %d and not to you: did a poll run under sudo?", name, owner))
	} else if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		found = append(found, finds(levelError, check, "its folder must be yours, on a file system that is mounted for writing", "%s cannot be written: %v", dir, err))
	}
	if aside, _ := filepath.Glob(filepath.Join(quoteGlob(dir), "state.json.corrupt-*")); len(aside) > 0 {
		found = append(found, finds(levelInfo, check, "remove it when you have looked at it; see docs/files.md",
			"%s was not usable and has been set aside", filepath.Base(aside[len(aside)-1])))
	}
	found = append(found, checkFileSystem(dir)...)
	if len(found) == 0 {
		found = append(found, good(check, "%s, mode 0700, writable, on a file system with room, links and locks", dir))
	}
	return found
}

// checkStateToCome is for a directory that the first poll makes.
func (d *patient) checkStateToCome(dir string) []finding {
	parent := filepath.Dir(dir)
	for {
		if _, err := os.Stat(parent); err == nil || parent == filepath.Dir(parent) {
			break
		}
		parent = filepath.Dir(parent)
	}
	if err := unix.Access(parent, unix.W_OK|unix.X_OK); err != nil {
		return []finding{finds(levelError, "state", "make it yourself, or set state_dir in [agent]", "%s is not there, and cannot be made in %s: %v", dir, parent, err)}
	}
	return append([]finding{finds(levelInfo, "state", "`agentstateloop poll` makes it", "%s is not there yet", dir)}, checkFileSystem(parent)...)
}

// foreignFile finds what belongs to somebody else, in the directory itself.
func foreignFile(dir string) (name string, owner uint32) {
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

// checkFileSystem asks for what a commit needs: room, hard links and flock.
func checkFileSystem(dir string) []finding {
	const check = "state"
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return []finding{finds(levelWarn, check, "", "its file system cannot be asked: %v", err)}
	}
	var found []finding
	switch kind := fileSystem(&stat); {
	case slices.Contains([]string{"vfat", "msdos", "exfat"}, kind):
		found = append(found, finds(levelError, check, "set state_dir in [agent] to a folder on a local disk of Linux or macOS", "%s is on %s, which has no hard links", dir, kind))
	case slices.Contains([]string{"nfs", "smb", "cifs", "smb2", "smbfs", "webdav", "afpfs"}, kind):
		found = append(found, finds(levelWarn, check, "set state_dir in [agent] to a folder on a local disk", "%s is on %s, where locks may not hold", dir, kind))
	}
	free := uint64(stat.Bavail) * uint64(stat.Bsize)
	switch hint := "make room: a poll that cannot write takes nothing in"; {
	case free < noSpace:
		found = append(found, finds(levelError, check, hint, "%d MiB are free on its file system", free>>20))
	case free < littleSpace:
		found = append(found, finds(levelWarn, check, hint, "%d MiB are free on its file system", free>>20))
	}
	if stat.Files > 0 && stat.Ffree < 100 {
		found = append(found, finds(levelError, check, "remove files: it is full of small ones", "%d files can still be made on its file system", stat.Ffree))
	}
	return found
}

// checkClock compares the clock with the last commit's. Checks of the network
// compare it with others.
func (d *patient) checkClock(context.Context) []finding {
	const check = "clock"
	now := d.loader.Now()
	if ahead := d.state.LastStep.Sub(now); ahead > longestSkew {
		return []finding{finds(levelWarn, check, "set this machine's clock, and keep it with NTP",
			"it is %s behind the last poll: it was set back, or was wrong then", terminal.Short(ahead))}
	}
	return []finding{good(check, "%s", now.Local().Format("2006-01-02 15:04:05 -0700 MST"))}
}

// checkState tells what the state says of polls, credentials, mail and the
// switches.
func (d *patient) checkState(context.Context) []finding {
	if d.agent == nil {
		return unknown("polls")
	}
	if d.stateErr != nil {
		return skipped("polls", "the state could not be read", "see state")
	}
	s, now := d.state, d.loader.Now()
	var found []finding
	switch {
	case s.NextDue.IsZero():
		found = append(found, finds(levelInfo, "polls", "`agentstateloop poll --dry-run` shows what the first would do: it takes the mail that is unread, and from then on what comes", "none yet"))
	case now.Sub(s.NextDue) > lateness:
		hint := whoPolls(d.mode()) + " the file log in the state directory has a line for each poll"
		found = append(found, finds(levelWarn, "polls", hint, "the poll of %s (%s) did not come", terminal.Clock(s.NextDue, now), terminal.Distance(s.NextDue, now)))
	default:
		found = append(found, good("polls", "the last change was %s, the next poll is due %s", terminal.Distance(s.LastStep, now), terminal.Distance(s.NextDue, now)))
	}
	if s.Halted() {
		found = append(found, finds(levelWarn, "halt", liftedBy(cycle.HaltedBy(s))+" lifts it", "HALT is on: no turns, no mail"))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Credentials)) {
		c := s.Credentials[name]
		found = append(found, finds(levelWarn, "credentials", "correct it: each poll reads it anew",
			"%s was refused %s in a row, since %s: %s", name, terminal.Count(c.Failures, "time"), terminal.Clock(c.Since, now), c.Reason))
	}
	if s.Quarantined > 0 {
		found = append(found, finds(levelInfo, "quarantine", "`agentstateloop inbox list --quarantined` shows why", "%s did not pass the gate", terminal.Count(s.Quarantined, "message")))
	}
	if s.Undeliverable > 0 {
		found = append(found, finds(levelWarn, "outbox", "`agentstateloop history` has the reasons", "%s could not be delivered", terminal.Count(s.Undeliverable, "message")))
	}
	return found
}
