package box

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// probeTimeout bounds the trial of a Way.
const probeTimeout = 10 * time.Second

// Find returns the Way to make sandboxes on this machine: bubblewrap if it is installed and
// works, otherwise the built-in way. Find makes a sandbox to find out, because user namespaces
// may be forbidden. self is the absolute path of our own binary. The error explains why each
// Way failed, and how the operator can fix it.
func Find(ctx context.Context, self string) (Way, error) {
	w, noBwrap := Bubblewrap(ctx, self)
	if noBwrap == nil {
		return w, nil
	}
	w, err := BuiltIn(ctx, self)
	if err != nil {
		return Way{}, fmt.Errorf("no working sandbox on this machine: %w; built-in sandbox: %w; %s", noBwrap, err, Advice(noBwrap))
	}
	return w, nil
}

// Bubblewrap returns the Way through bubblewrap if bubblewrap is installed and works.
func Bubblewrap(ctx context.Context, self string) (Way, error) {
	path, err := findBwrap()
	if err != nil {
		return Way{}, err
	}
	w := Way{name: "bubblewrap", bwrap: path}
	if err := w.probe(ctx, self); err != nil {
		return Way{}, fmt.Errorf("%s: %w", path, err)
	}
	return w, nil
}

// BuiltIn returns the built-in way if the kernel lets us make namespaces and has Landlock.
func BuiltIn(ctx context.Context, self string) (Way, error) {
	w := Way{name: "own"}
	if err := w.probe(ctx, self); err != nil {
		return Way{}, err
	}
	return w, nil
}

// probeContext returns a context with the timeout of a trial.
func probeContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, probeTimeout)
}

// probe makes a sandbox with all its walls.
func (w Way) probe(ctx context.Context, self string) error {
	ctx, cancel := probeContext(ctx)
	defer cancel()
	var output bytes.Buffer
	err := Box{Self: self}.Run(ctx, w, Program{Env: os.Environ(), Stdout: &output, Stderr: &output})
	if line, _, _ := strings.Cut(strings.TrimSpace(output.String()), "\n"); err != nil && line != "" {
		return errors.New(line)
	}
	return err
}

// Advice returns how the operator can fix an error of Bubblewrap or Find, judging by the
// settings of this machine.
func Advice(err error) string {
	_, missing := findBwrap()
	switch {
	case readSetting("/proc/sys/user/max_user_namespaces") == "0":
		return "allow user namespaces: sysctl -w user.max_user_namespaces=10000"
	case readSetting("/proc/sys/kernel/unprivileged_userns_clone") == "0":
		return "allow user namespaces: sysctl -w kernel.unprivileged_userns_clone=1"
	case readSetting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
		return "give bwrap an AppArmor profile with \"userns,\" (Ubuntu: apt install apparmor-profiles), or run sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
	case missing != nil:
		return "install bubblewrap (on Debian: apt install bubblewrap)"
	case forbidsNamespaces(err):
		return "bubblewrap is installed, but this machine forbids namespaces: start the container with a seccomp profile that allows unshare and clone, such as docker run --security-opt seccomp=unconfined"
	}
	return "run " + bwrapTrial + " to see why bubblewrap fails"
}

// bwrapTrial is a command that only makes a sandbox.
const bwrapTrial = "bwrap --unshare-all --ro-bind / / true"

// forbidsNamespaces reports whether an error means that the kernel refuses namespaces. It looks for
// bubblewrap's messages and the system's texts for EPERM, EACCES, ENOSPC and EINVAL.
func forbidsNamespaces(err error) bool {
	if err == nil {
		return false
	}
	words := strings.ToLower(err.Error())
	for _, word := range []string{"no permissions to create", "creating new namespace failed", "operation not permitted", "permission denied", "no space left on device", "unshare", "setting up uid map"} {
		if strings.Contains(words, word) {
			return true
		}
	}
	return false
}

func readSetting(path string) string {
	b, _ := os.ReadFile(path)
	return strings.TrimSpace(string(b))
}

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
		return nil, errors.New("sandbox: only bubblewrap can replace a running process")
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
