package box

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// The folders for the new file system and, while it is built, the machine's file system.
const (
	newRoot = "/new"
	oldRoot = "/old"
)

// mount builds the sandbox in the namespaces that this process was started in, and becomes its
// first process. The kernel gave it the necessary capabilities, in those namespaces only.
func (s stage) mount(argv []string) error {
	runtime.LockOSThread() // the thread that becomes the first process
	if err := s.build(); err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	if err := dropCapabilities(); err != nil {
		return fmt.Errorf("sandbox: drop capabilities: %w", err)
	}
	s.Mounts = nil
	args := append(append([]string{s.Self}, s.args(stageInit)...), argv...)
	return fmt.Errorf("sandbox: start the first process: %w", unix.Exec(s.Self, args, os.Environ()))
}

// build makes the file system, moves into it and detaches the old one.
func (s stage) build() error {
	if err := enterScaffold(); err != nil {
		return fmt.Errorf("build: %w", err)
	}
	for _, m := range s.Mounts {
		if err := m.make(); err != nil {
			return fmt.Errorf("%s %s: %w", m.Kind, m.To, err)
		}
	}
	if err := unix.Unmount(oldRoot, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the old root: %w", err)
	}
	// PivotRoot stacks the scaffold on the new root; Unmount removes it from there.
	if err := os.Chdir(newRoot); err != nil {
		return err
	}
	if err := errors.Join(unix.PivotRoot(".", "."), unix.Unmount(".", unix.MNT_DETACH), os.Chdir("/")); err != nil {
		return fmt.Errorf("switch to the new root: %w", err)
	}
	if err := unix.Sethostname([]byte(hostInside)); err != nil {
		return fmt.Errorf("set the host name: %w", err)
	}
	if s.Network {
		return nil
	}
	return loopbackUp()
}

// enterScaffold makes a small temporary root with two folders: newRoot for the sandbox, and
// oldRoot for the machine's files until the sandbox is built.
func enterScaffold() error {
	const base = "/tmp" // any folder; only our namespace sees it covered
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", base, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=1m"); err != nil {
		return err
	}
	for _, dir := range []string{newRoot, oldRoot} {
		if err := os.Mkdir(base+dir, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount("tmpfs", base+newRoot, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=1m"); err != nil {
		return err
	}
	if err := unix.PivotRoot(base, base+oldRoot); err != nil {
		return err
	}
	return os.Chdir("/")
}

// make performs one step of the layout.
func (m mount) make() error {
	to := newRoot + m.To
	switch m.Kind {
	case readOnly:
		return bind(oldRoot+m.From, to, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_RDONLY)
	case readWrite:
		return bind(oldRoot+m.From, to, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	case symlink:
		return os.Symlink(m.From, to)
	case tmpfs:
		return mountTmpfs(to, m.Size)
	case proc:
		return mountProc(to)
	case dev:
		return makeDevices(to)
	default: // sealed
		return unix.MountSetattr(unix.AT_FDCWD, to, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	}
}

// bind mounts from at to, including all mounts below from, with these attributes.
func bind(from, to string, attrs uint64) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		err = os.MkdirAll(to, 0o755)
	} else {
		err = makeFile(to)
	}
	if err != nil {
		return err
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	return unix.MountSetattr(unix.AT_FDCWD, to, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attrs})
}

// makeFile makes an empty file as a mount point, unless path exists.
func makeFile(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// mountTmpfs mounts an empty folder in memory, of at most size bytes.
func mountTmpfs(to string, size int64) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	return unix.Mount("tmpfs", to, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("mode=0755,size=%d", size))
}

// mountProc mounts a /proc that shows the sandbox's processes.
func mountProc(to string) error {
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	return unix.Mount("proc", to, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
}

// makeDevices makes a small /dev from the machine's devices: a user namespace cannot create
// devices.
func makeDevices(to string) error {
	if err := mountTmpfs(to, maxEtc); err != nil {
		return err
	}
	for _, path := range devices {
		if _, err := os.Lstat(oldRoot + path); err != nil {
			continue
		}
		if err := bind(oldRoot+path, newRoot+path, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC); err != nil {
			return err
		}
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx",
	} {
		if err := os.Symlink(target, to+"/"+name); err != nil {
			return err
		}
	}
	for _, dir := range []string{"/shm", "/pts"} {
		if err := os.Mkdir(to+dir, 0o755); err != nil {
			return err
		}
	}
	return unix.Mount("devpts", to+"/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620")
}

// loopbackUp starts the loopback interface of a new network namespace.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("start the loopback interface: %w", err)
	}
	return nil
}
