package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"agentstateloop/commands/terminal"
	"agentstateloop/internal/order"
	"agentstateloop/internal/osfile"
	"agentstateloop/internal/plain"
)

// repair fixes one finding. A finding has a repair only if it has exactly one right answer that
// changes nothing else: the mode of a file of ours, a missing folder, our crontab line.
type repair struct {
	last bool // depends on the results of the other repairs
	do   func(ctx context.Context) (did string, err error)
}

// fixHint is added to the hint of a finding that Fix can repair.
const fixHint = "`" + terminal.Program + " doctor --fix` does that"

// Fix examines the agent and repairs the problems that have exactly one right answer. It returns a
// finding for each repair: Fixed, or Warn if it failed. It touches no file of another user, and
// follows no link. If the agent belongs to another user, Fix returns an error.
func Fix(ctx context.Context, s Subject) ([]Finding, error) {
	s.Network = false // network problems cannot be repaired from here
	e, found := s.examine(ctx)
	if err := e.checkOwner(); err != nil {
		return nil, err
	}
	order.Stable(found, func(a, b Finding) int { return cmp.Compare(repairOrder(a), repairOrder(b)) })
	var done []Finding
	for _, f := range found {
		if f.fix == nil {
			continue
		}
		if err := ctx.Err(); err != nil {
			return done, err
		}
		did, err := f.fix.do(ctx)
		switch {
		case err != nil:
			done = append(done, bad(Warn, f.Check, "", "cannot be fixed: %s", plain.Line(err.Error())))
		case did != "":
			done = append(done, bad(Fixed, f.Check, "", "%s", plain.Line(did)))
		}
	}
	return done, nil
}

// repairOrder sorts the repairs that depend on the others to the end.
func repairOrder(f Finding) int {
	if f.fix != nil && f.fix.last {
		return 1
	}
	return 0
}

// checkOwner returns an error if the agent belongs to another user than the one who runs doctor. A
// configuration owned by root may configure an agent of ours.
func (e *examination) checkOwner() error {
	path, owner := "", uint32(0)
	if e.agent != nil {
		path, owner = fileOfAnotherUser(e.agent.Store.Dir)
	}
	if path == "" {
		if uid, err := ownerOf(e.Path); err == nil && int(uid) != os.Geteuid() && uid != 0 {
			path, owner = e.Path, uid
		}
	}
	if path == "" {
		return nil
	}
	hint := "run it as the agent's user"
	who := strconv.Itoa(int(owner))
	if u, err := user.LookupId(who); err == nil {
		who = u.Username
	}
	if owner != 0 {
		hint = fmt.Sprintf("run it as the agent's user: `sudo -u %s %s --config %s doctor --fix`", who, terminal.Program, e.Path)
	} else if e.agent != nil {
		hint = "if a poll ran under sudo, give the files back first: `sudo chown -R $(id -un) " + e.agent.Store.Dir + "`"
	}
	return terminal.WithHint(fmt.Errorf("%s belongs to %s, not to you: nothing was fixed", path, who), hint)
}

// ownerOf returns the owner of a file. It follows links.
func ownerOf(path string) (uint32, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	sys, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, errors.New("its owner is unknown")
	}
	return sys.Uid, nil
}

// ownFile returns the file information of a file or a folder that belongs to us and is not a link.
// ok is false for anything else.
func ownFile(path string) (info fs.FileInfo, ok bool) {
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() && !info.Mode().IsRegular() {
		return nil, false
	}
	sys, ok := info.Sys().(*syscall.Stat_t)
	return info, ok && int(sys.Uid) == os.Geteuid()
}

// setMode returns the repair that sets the mode of a file or a folder of ours, or nil if it is not
// ours or already has that mode.
func setMode(path string, mode os.FileMode) *repair {
	if info, ok := ownFile(path); !ok || info.Mode().Perm() == mode {
		return nil
	}
	return &repair{do: func(context.Context) (string, error) {
		return fmt.Sprintf("set mode %04o on %s", mode, path), chmod(path, mode)
	}}
}

// makePrivate returns the repair that makes a secret file of ours readable only for us, or nil if
// it already is or the file is not ours.
func makePrivate(path string) *repair {
	if info, ok := ownFile(path); !ok || !info.Mode().IsRegular() || info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	return setMode(path, 0o600)
}

// chmod changes the mode of a file or a folder of ours. It follows no link, even if a link replaces
// the file in the meantime.
func chmod(path string, mode os.FileMode) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrPermission) { // we may not read it, but it is ours
		err := unix.Fchmodat(unix.AT_FDCWD, path, uint32(mode), unix.AT_SYMLINK_NOFOLLOW)
		return pathError("chmod", path, err)
	}
	if err != nil {
		return pathError("open", path, err)
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return pathError("stat", path, err)
	}
	if int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("%s now belongs to another user", path)
	}
	return pathError("chmod", path, unix.Fchmod(fd, uint32(mode)))
}

func pathError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}

// makeFolder returns the repair that creates a missing folder, readable only for us. It is nil if
// the path exists, or if its nearest existing parent is not ours.
func makeFolder(path string) *repair {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	parent := filepath.Dir(path)
	for parent != filepath.Dir(parent) {
		if _, err := os.Lstat(parent); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		parent = filepath.Dir(parent)
	}
	if _, ok := ownFile(parent); !ok {
		return nil
	}
	return &repair{do: func(context.Context) (string, error) {
		return "created the folder " + path, osfile.MkdirAll(path)
	}}
}
