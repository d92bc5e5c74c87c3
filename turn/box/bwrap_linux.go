package box

import (
	"errors"
	"os"
	"strconv"
)

// bwrapPaths are the possible paths of bubblewrap. PATH is not searched, since it may contain a
// folder that an agent can write.
var bwrapPaths = []string{"/usr/bin/bwrap", "/usr/local/bin/bwrap", "/run/current-system/sw/bin/bwrap"}

// findBwrap returns the path of bubblewrap.
func findBwrap() (string, error) {
	for _, path := range bwrapPaths {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", errors.New("bubblewrap is not installed")
}

// Argv returns the command line that turns its caller into argv in the sandbox, through
// exec(3). Only bubblewrap can do that; any other Way is an error.
//
// Unlike Run, the sandbox outlives the parent of its caller, so that a runner may leave an
// agent behind for the next poll to end. The caller's process becomes bubblewrap and stays in
// its group and session. A signal to that group reaches the program; KILL ends the whole
// sandbox. Descriptors that the caller leaves open stay open in the first process of the
// sandbox, out of the program's reach. A lock on such a descriptor therefore lives as long as
// the sandbox. The environment is the caller's, with the replacements of Program.Env.
func (b Box) Argv(w Way, argv []string) ([]string, error) {
	if w.bwrap == "" {
		return nil, errors.New("box: only bubblewrap can turn a process into a box")
	}
	s, err := b.stage()
	if err != nil {
		return nil, err
	}
	return b.bwrapArgv(w, s, argv), nil
}

// bwrapArgv returns the command line of bubblewrap that makes the sandbox and starts argv in
// it.
func (b Box) bwrapArgv(w Way, s stage, argv []string) []string {
	args := []string{
		w.bwrap, "--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try",
		"--uid", strconv.Itoa(userInside), "--gid", strconv.Itoa(userInside), "--hostname", hostInside,
		"--cap-drop", "ALL", "--as-pid-1",
	}
	if !b.Network {
		args = append(args, "--unshare-net")
	}
	if s.Lifeline != 0 {
		args = append(args, "--die-with-parent")
	}
	for _, m := range s.Mounts {
		args = append(args, m.bwrap()...)
	}
	args = append(args, "--chdir", "/", "--", s.Self)
	s.Mounts = nil // bubblewrap makes them
	return append(append(args, s.args(stageInit)...), argv...)
}

// bwrap returns the options of bubblewrap for m.
func (m mount) bwrap() []string {
	switch m.Kind {
	case readOnly:
		return []string{"--ro-bind", m.From, m.To}
	case readWrite:
		return []string{"--bind", m.From, m.To}
	case symlink:
		return []string{"--symlink", m.From, m.To}
	case tmpfs:
		return []string{"--size", strconv.FormatInt(m.Size, 10), "--tmpfs", m.To}
	case proc:
		return []string{"--proc", m.To}
	case dev:
		return []string{"--dev", m.To}
	default: // sealed
		return []string{"--remount-ro", m.To}
	}
}
