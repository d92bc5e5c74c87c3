package box_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The hidden arguments of this test binary: all escapes with their targets, or one.
const (
	escapesCommand = "__escapes"
	escapeCommand  = "__escape"
)

// canary is a text that no program in a sandbox may read, in any file or process.
const canary = "canary-7351"

// targets are the files, processes and sockets outside that the escapes try to reach.
type targets struct {
	Secret   string // a file of the user's, with the canary
	Folder   string // the folder of Secret; it is also in PATH
	Self     string // this binary, which a sandbox may read
	Work     string // the folder that a sandbox may write
	PID      int    // a process of the user
	Stream   string // the address of a local socket
	Datagram string // of a datagram socket
	Abstract string // of an abstract datagram socket
	TCP, UDP string // of servers on loopback
	ShmKey   int    // of shared memory, SysV
	Shm      string // of shared memory, POSIX; a file name
	FD       int    // of a file open for writing, without close-on-exec
}

// escape is one way out of a sandbox. try returns nil if it worked.
type escape struct {
	name  string // class and case
	try   func(p targets) error
	works bool // outside of a sandbox, for any user, without harm: the test checks it
}

// call makes a system call that needs no more than three arguments.
func call(number int, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, errno := unix.RawSyscall6(uintptr(number), a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
		return errno
	}
	return nil
}

// reads returns nil if the file at path has the canary.
func reads(path string) error {
	b, err := os.ReadFile(path)
	if err == nil && !bytes.Contains(b, []byte(canary)) {
		err = errors.New("the file does not have the canary")
	}
	return err
}

// writes returns nil if the file at path can be opened for writing.
func writes(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err == nil {
		f.Close()
	}
	return err
}

// anyOf returns nil if one of the paths of a pattern passes try.
func anyOf(pattern string, try func(string) error) error {
	paths, _ := filepath.Glob(pattern)
	err := errors.New("no such file")
	for _, path := range paths {
		if err = try(path); err == nil {
			return nil
		}
	}
	return err
}

func exists(path string) error {
	_, err := os.Lstat(path)
	return err
}

// readLink returns nil if the path is a link that can be read.
func readLink(path string) error {
	_, err := os.Readlink(path)
	return err
}

func bytePtr(s string) uintptr {
	b := append([]byte(s), 0)
	return uintptr(unsafe.Pointer(&b[0]))
}

// file returns the escape of reading a file of the machine.
func file(class, path string) escape {
	return escape{class + " " + path, func(targets) error {
		f, err := os.Open(path)
		if err == nil {
			defer f.Close()
			_, err = f.Stat()
		}
		return err
	}, false}
}

// escapes returns all escapes, by class.
func escapes() []escape {
	return slices.Concat(fileEscapes(), writeEscapes(), procEscapes(), processEscapes(), mountEscapes(), socketEscapes(), ipcEscapes(), kernelEscapes())
}

func fileEscapes() []escape {
	all := []escape{
		{"file secret", func(p targets) error { return reads(p.Secret) }, true},
		{"file folder of PATH", func(p targets) error { _, err := os.ReadDir(p.Folder); return err }, true},
		{"file through a link", func(p targets) error {
			link := filepath.Join(p.Work, "link")
			os.Remove(link)
			return errors.Join(os.Symlink(p.Secret, link), reads(link))
		}, true},
		{"file through a hard link", func(p targets) error {
			link := filepath.Join(p.Work, "hard")
			os.Remove(link)
			if err := os.Link(p.Secret, link); err != nil {
				return err
			}
			defer os.Remove(link)
			return reads(link)
		}, true},
		{"file above the root of a process", func(p targets) error { return reads("/proc/self/root/../../../.." + p.Secret) }, true},
		{"file above the working folder", func(p targets) error {
			return reads(filepath.Join(p.Work, "../../../../../../../../../") + p.Secret)
		}, true},
		{"file through /proc/1/root", func(p targets) error { return reads("/proc/1/root" + p.Secret) }, false},
		{"file through /proc/1/cwd", func(p targets) error { return reads("/proc/1/cwd/.." + p.Secret) }, false},
		{"file through any process's root", func(p targets) error {
			return anyOf("/proc/[0-9]*/root"+p.Secret, reads)
		}, true},
		{"file by handle", byHandle, false},
		{"file after chroot", func(p targets) error {
			dir := filepath.Join(p.Work, "jail")
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return err
			}
			if err := unix.Chroot(dir); err != nil {
				return err
			}
			return reads("../../../../../../../.." + p.Secret)
		}, false},
		{"file: chmod of a secret", func(p targets) error { return os.Chmod(p.Secret, 0o600) }, true},
		{"file: owner of a secret", func(p targets) error { return os.Chown(p.Secret, -1, -1) }, true},
		{"file: attributes of a secret", func(p targets) error { return exists(p.Secret) }, true},
		{"file: truncate a secret", func(p targets) error { return os.Truncate(p.Secret, int64(len(canary))) }, true},
		{"file: remove the working folder", func(p targets) error {
			return os.Rename(p.Work, p.Work+".gone")
		}, false},
	}
	for _, path := range []string{
		"/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/crontab", "/etc/cron.d", "/etc/ssh", "/etc/apt", "/etc/ssl/private", "/etc/machine-id",
		"/root", "/home", "/opt", "/srv", "/var", "/var/log", "/var/spool/cron", "/run", "/run/user", "/run/dbus", "/var/run/docker.sock", "/boot", "/mnt", "/media", "/sys", "/sys/kernel", "/sys/fs/cgroup", "/nix",
		"/dev/kmsg", "/dev/mem", "/dev/port", "/dev/vda", "/dev/sda", "/dev/fuse", "/dev/kvm", "/dev/net/tun", "/dev/vsock", "/dev/loop0", "/dev/loop-control", "/dev/mqueue", "/dev/console", "/dev/log", "/dev/tty0", "/dev/input",
	} {
		all = append(all, file("file", path))
	}
	return all
}

// byHandle opens the root of the machine's file system by a handle, as a well-known
// escape from containers does.
func byHandle(p targets) error {
	mountFD, err := unix.Open("/usr", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	handle := unix.NewFileHandle(1, []byte{2, 0, 0, 0, 0, 0, 0, 0})
	fd, err := unix.OpenByHandleAt(mountFD, handle, unix.O_RDONLY)
	if err != nil {
		return err
	}
	return unix.Fchdir(fd)
}

func writeEscapes() []escape {
	var all []escape
	for _, dir := range []string{"/", "/usr", "/usr/bin", "/usr/local", "/usr/lib", "/bin", "/lib", "/etc", "/etc/alternatives", "/etc/ld.so.conf.d", "/dev", "/proc", "/proc/sys", "/proc/self"} {
		all = append(all, escape{"write a file into " + dir, func(targets) error {
			f, err := os.Create(filepath.Join(dir, "escape-test"))
			if err == nil {
				f.Close()
				os.Remove(f.Name())
			}
			return err
		}, false})
	}
	for _, path := range []string{"/usr/bin/env", "/bin/sh", "/etc/ld.so.cache", "/.self", "/proc/1/exe", "/proc/self/exe"} {
		all = append(all,
			escape{"write " + path, func(targets) error { return writes(path) }, false},
			escape{"chmod " + path, func(targets) error { return os.Chmod(path, 0o755) }, false})
	}
	for _, name := range []string{"passwd", "hosts", "nsswitch.conf"} {
		all = append(all, escape{"write /etc/" + name, func(targets) error { return writes("/etc/" + name) }, false})
	}
	for name, mode := range map[string]uint32{"setuid": unix.S_ISUID | 0o755, "setgid": unix.S_ISGID | 0o755, "both": unix.S_ISUID | unix.S_ISGID | 0o755} {
		for way, make := range modeEscapes {
			all = append(all, escape{"mode: " + way + " " + name, func(p targets) error {
				path := filepath.Join(p.Work, "mode-"+name)
				os.Remove(path)
				if err := make(path, mode); err != nil {
					return err
				}
				info, err := os.Stat(path)
				if err == nil && info.Mode()&(os.ModeSetuid|os.ModeSetgid) == 0 {
					err = errors.New("it has an ordinary mode")
				}
				return err
			}, true})
		}
		all = append(all, escape{"mode: a temporary file as " + name, func(p targets) error {
			fd, err := unix.Open(p.Work, unix.O_TMPFILE|unix.O_WRONLY, mode)
			unix.Close(fd)
			return err
		}, true})
	}
	return append(all,
		escape{"write our binary through a descriptor of it", func(p targets) error {
			f, err := os.Open("/proc/1/exe")
			if err != nil {
				if f, err = os.Open(p.Self); err != nil {
					return err
				}
			}
			return writes(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
		}, false},
		escape{"make a device", func(p targets) error {
			return unix.Mknod(filepath.Join(p.Work, "device"), unix.S_IFBLK|0o600, int(unix.Mkdev(254, 0)))
		}, false},
		escape{"make a device in /tmp", func(targets) error { return unix.Mknod("/tmp/mem", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 1))) }, false},
	)
}

// modeEscapes make a file with a mode.
var modeEscapes = map[string]func(path string, mode uint32) error{
	"chmod to": func(path string, mode uint32) error {
		return errors.Join(os.WriteFile(path, nil, 0o600), unix.Chmod(path, mode))
	},
	"fchmod to": func(path string, mode uint32) error {
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		defer f.Close()
		return unix.Fchmod(int(f.Fd()), mode)
	},
	"fchmodat2 to": func(path string, mode uint32) error {
		return errors.Join(os.WriteFile(path, nil, 0o600), unix.Fchmodat(unix.AT_FDCWD, path, mode, unix.AT_SYMLINK_NOFOLLOW))
	},
	"create as": func(path string, mode uint32) error {
		fd, err := unix.Open(path, unix.O_CREAT|unix.O_WRONLY, mode)
		unix.Close(fd)
		return err
	},
	"openat2 as": func(path string, mode uint32) error {
		fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_CREAT | unix.O_WRONLY, Mode: uint64(mode)})
		unix.Close(fd)
		return err
	},
	"mknod as": func(path string, mode uint32) error { return unix.Mknod(path, unix.S_IFREG|mode, 0) },
}

func procEscapes() []escape {
	all := []escape{
		{"proc: a canary in any environment", func(targets) error { return anyOf("/proc/[0-9]*/environ", reads) }, true},
		{"proc: a canary in any command line", func(targets) error { return anyOf("/proc/[0-9]*/cmdline", reads) }, true},
		{"proc: the process outside", func(p targets) error {
			return anyOf("/proc/[0-9]*/comm", func(path string) error {
				if b, err := os.ReadFile(path); err != nil || string(b) != "sleep\n" {
					return errors.New("another process")
				}
				return nil
			})
		}, true},
		{"proc: open files of the first process", func(targets) error { return anyOf("/proc/1/fd/[0-9]*", readLink) }, false},
		{"proc: mapped files of the first process", func(targets) error { return anyOf("/proc/1/map_files/*", readLink) }, false},
		{"proc: reopen a file of the first process", func(targets) error { return anyOf("/proc/1/fd/[3-9]*", writes) }, false},
		{"proc: a file that we had open", func(p targets) error { _, err := unix.Write(p.FD, []byte("x")); return err }, false},
		{"proc: inherited descriptors", func(p targets) error {
			for fd := 3; fd < 1024; fd++ {
				if target, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err == nil && strings.HasPrefix(target, "/") && target != "/proc/self/fd" && !strings.HasPrefix(target, "/proc/") {
					return nil
				}
			}
			return errors.New("none")
		}, false},
	}
	for _, name := range []string{"environ", "mem", "maps", "exe", "cwd", "root", "auxv", "stack", "syscall", "ns/mnt", "ns/user"} {
		all = append(all, escape{"proc/1/" + name, func(targets) error {
			f, err := os.Open("/proc/1/" + name)
			if err != nil {
				return err
			}
			defer f.Close()
			if _, err = f.Read(make([]byte, 1)); errors.Is(err, syscall.EISDIR) {
				return nil
			}
			return err
		}, false})
	}
	for _, path := range []string{
		"/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hotplug", "/proc/sys/vm/overcommit_memory", "/proc/sys/fs/binfmt_misc/register",
		"/proc/sys/kernel/hostname", "/proc/sys/net/ipv4/ip_forward", "/proc/sys/kernel/ns_last_pid", "/proc/sysrq-trigger", "/proc/1/oom_score_adj", "/proc/1/mem", "/proc/1/clear_refs",
		"/proc/1/uid_map", "/proc/self/uid_map", "/proc/self/setgroups", "/proc/self/oom_score_adj", "/proc/irq/0/smp_affinity", "/proc/kcore", "/proc/keys", "/proc/kmsg",
	} {
		all = append(all, escape{"proc: write " + path, func(targets) error { return writes(path) }, false})
	}
	for _, path := range []string{"/proc/kcore", "/proc/kmsg", "/proc/keys", "/proc/kallsyms", "/proc/timer_list"} {
		all = append(all, file("proc: read", path))
	}
	return all
}

// trace attaches to a process as its debugger.
func trace(pid int) error {
	runtime.LockOSThread()
	return unix.PtraceSeize(pid)
}

func processEscapes() []escape {
	return []escape{
		{"process: signal", func(p targets) error { return unix.Kill(p.PID, 0) }, true},
		{"process: kill the first", func(targets) error { return unix.Kill(1, unix.SIGTERM) }, false},
		{"process: signal by pidfd", func(p targets) error {
			fd, err := unix.PidfdOpen(p.PID, 0)
			if err != nil {
				return err
			}
			return unix.PidfdSendSignal(fd, 0, nil, 0)
		}, true},
		{"process: limits", func(p targets) error { return unix.Prlimit(p.PID, unix.RLIMIT_NOFILE, nil, new(unix.Rlimit)) }, true},
		{"process: limits of the first", func(p targets) error {
			return unix.Prlimit(1, unix.RLIMIT_CPU, &unix.Rlimit{Cur: 1, Max: 1}, nil)
		}, false},
		{"process: priority", func(p targets) error { _, err := unix.Getpriority(unix.PRIO_PROCESS, p.PID); return err }, true},
		{"process: higher priority", func(targets) error { return unix.Setpriority(unix.PRIO_PROCESS, 0, -5) }, false},
		{"process: affinity", func(p targets) error { return unix.SchedGetaffinity(p.PID, new(unix.CPUSet)) }, true},
		{"process: priority of all of the user's", func(targets) error { return unix.Setpriority(unix.PRIO_USER, 0, 19) }, false},
		{"process: priority of the group", func(targets) error { return unix.Setpriority(unix.PRIO_PGRP, 0, 19) }, false},
		{"process: priority of the first", func(targets) error { return unix.Setpriority(unix.PRIO_PROCESS, 1, 19) }, false},
		{"process: idle the first", func(targets) error {
			var param int32
			return call(unix.SYS_SCHED_SETSCHEDULER, 1, unix.SCHED_IDLE, uintptr(unsafe.Pointer(&param)))
		}, false},
		{"process: idle the first by attributes", func(targets) error {
			return unix.SchedSetAttr(1, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}, 0)
		}, false},
		{"process: disk priority of the first", func(targets) error { return call(unix.SYS_IOPRIO_SET, 1, 1, 3<<13) }, false},
		{"process: trace", func(p targets) error { return trace(p.PID) }, false},
		{"process: trace the first", func(targets) error { return trace(1) }, false},
		{"process: trace a child", func(targets) error {
			cmd := exec.Command("/usr/bin/env")
			cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
			runtime.LockOSThread()
			err := cmd.Start()
			if err == nil {
				cmd.Process.Kill()
			}
			return err
		}, true},
		{"process: read memory of the first", func(targets) error {
			b := make([]byte, 8)
			local := unix.Iovec{Base: &b[0], Len: 8}
			_, err := unix.ProcessVMReadv(1, []unix.Iovec{local}, []unix.RemoteIovec{{Base: 0x400000, Len: 8}}, 0)
			return err
		}, false},
		{"process: a descriptor of the first", func(targets) error {
			fd, err := unix.PidfdOpen(1, 0)
			if err != nil {
				return err
			}
			_, err = unix.PidfdGetfd(fd, 0, 0)
			return err
		}, false},
		{"process: compare with the first", func(targets) error { return call(unix.SYS_KCMP, 1, uintptr(os.Getpid()), 0) }, false},
		{"process: become root", func(targets) error { return unix.Setresuid(0, 0, 0) }, false},
		{"process: another group", func(targets) error { return unix.Setgroups([]int{0}) }, false},
		{"process: a capability", func(targets) error {
			data := [2]unix.CapUserData{{Effective: 1 << unix.CAP_SYS_ADMIN, Permitted: 1 << unix.CAP_SYS_ADMIN}}
			return unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0])
		}, false},
		{"process: capabilities that are left", func(targets) error {
			b, err := os.ReadFile("/proc/self/status")
			if err != nil {
				return err
			}
			if bytes.Count(b, []byte("\t0000000000000000\n")) < 5 || !bytes.Contains(b, []byte("NoNewPrivs:\t1\n")) {
				return nil
			}
			return errors.New("none")
		}, true},
		{"process: raise a limit", func(targets) error {
			return unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20})
		}, false},
		{"process: setuid program", func(p targets) error {
			out, err := exec.Command(filepath.Join(p.Work, "setuid"), "-u").Output()
			if err == nil && strings.TrimSpace(string(out)) != "0" {
				err = fmt.Errorf("it runs as %s", out)
			}
			return err
		}, false},
	}
}

func mountEscapes() []escape {
	flag := func(flag uintptr) func(targets) error {
		return func(targets) error {
			pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, flag|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
			if errno != 0 {
				return errno
			}
			if pid == 0 {
				unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
			}
			return nil
		}
	}
	enter := func(namespace string) error {
		fd, err := unix.Open(namespace, unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		return unix.Setns(fd, 0)
	}
	all := []escape{
		{"mount tmpfs", func(p targets) error { return unix.Mount("none", p.Work, "tmpfs", 0, "") }, false},
		{"mount proc", func(p targets) error { return unix.Mount("none", p.Work, "proc", 0, "") }, false},
		{"mount cgroup", func(p targets) error { return unix.Mount("none", p.Work, "cgroup", 0, "memory") }, false},
		{"mount cgroup2", func(p targets) error { return unix.Mount("none", p.Work, "cgroup2", 0, "") }, false},
		{"mount overlay", func(p targets) error {
			return unix.Mount("none", p.Work, "overlay", 0, "lowerdir=/usr,upperdir=/tmp,workdir=/tmp")
		}, false},
		{"mount bind", func(p targets) error { return unix.Mount("/usr", p.Work, "", unix.MS_BIND, "") }, false},
		{"mount /usr writable", func(targets) error { return unix.Mount("", "/usr", "", unix.MS_REMOUNT|unix.MS_BIND, "") }, false},
		{"mount / writable", func(targets) error { return unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, "") }, false},
		{"mount: unmount /etc", func(targets) error { return unix.Unmount("/etc", unix.MNT_DETACH) }, false},
		{"mount: unmount the working folder", func(p targets) error { return unix.Unmount(p.Work, unix.MNT_DETACH) }, false},
		{"mount: unmount /proc/keys", func(p targets) error { return unix.Unmount("/proc/keys", unix.MNT_DETACH) }, false},
		{"mount: attributes", func(targets) error {
			return unix.MountSetattr(unix.AT_FDCWD, "/usr", 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
		}, false},
		{"mount: open_tree", func(targets) error { _, err := unix.OpenTree(unix.AT_FDCWD, "/usr", unix.OPEN_TREE_CLONE); return err }, false},
		{"mount: fsopen", func(targets) error { _, err := unix.Fsopen("tmpfs", 0); return err }, false},
		{"mount: pivot_root", func(p targets) error { return unix.PivotRoot(p.Work, p.Work) }, false},
		{"namespace: setns", func(targets) error { return enter("/proc/1/ns/mnt") }, false},
		{"namespace: setns to our own", func(targets) error { return enter("/proc/self/ns/user") }, false},
		{"namespace: unshare -r", func(targets) error { return exec.Command("unshare", "-r", "true").Run() }, false},
		{"namespace: bwrap in the sandbox", func(targets) error {
			return exec.Command("bwrap", "--ro-bind", "/", "/", "true").Run()
		}, false},
		{"namespace: clone3 user", func(targets) error {
			args := struct{ flags, pidfd, childTID, parentTID, exit, stack, stackSize, tls uint64 }{flags: unix.CLONE_NEWUSER, exit: uint64(unix.SIGCHLD)}
			pid, _, errno := unix.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
			if errno != 0 {
				return errno
			}
			if pid == 0 {
				unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
			}
			return nil
		}, false},
	}
	for name, f := range map[string]uintptr{"user": unix.CLONE_NEWUSER, "mount": unix.CLONE_NEWNS, "pid": unix.CLONE_NEWPID, "net": unix.CLONE_NEWNET, "ipc": unix.CLONE_NEWIPC, "uts": unix.CLONE_NEWUTS, "cgroup": unix.CLONE_NEWCGROUP} {
		all = append(all,
			escape{"namespace: clone " + name, flag(f), false},
			escape{"namespace: unshare " + name, func(targets) error { return unix.Unshare(int(f)) }, false})
	}
	return all
}

func socketEscapes() []escape {
	socket := func(domain, kind, proto int) func(targets) error {
		return func(targets) error { _, err := unix.Socket(domain, kind, proto); return err }
	}
	dial := func(network string, addr func(targets) string) func(targets) error {
		return func(p targets) error {
			c, err := net.Dial(network, addr(p))
			if err == nil {
				c.Close()
			}
			return err
		}
	}
	pair := func(kind int, addr func(targets) string) func(targets) error {
		return func(p targets) error {
			fds, err := unix.Socketpair(unix.AF_UNIX, kind, 0)
			if err != nil {
				return err
			}
			return unix.Connect(fds[0], &unix.SockaddrUnix{Name: addr(p)})
		}
	}
	sendTo := func(kind int) func(targets) error {
		return func(p targets) error {
			fds, err := unix.Socketpair(unix.AF_UNIX, kind, 0)
			if err != nil {
				return err
			}
			return unix.Sendto(fds[0], []byte("x"), 0, &unix.SockaddrUnix{Name: p.Datagram})
		}
	}
	return []escape{
		{"socket: local stream", dial("unix", func(p targets) string { return p.Stream }), true},
		{"socket: local datagram", dial("unixgram", func(p targets) string { return p.Datagram }), true},
		{"socket: abstract", dial("unixgram", func(p targets) string { return p.Abstract }), true},
		{"socket: pair of datagrams, connected to a path", pair(unix.SOCK_DGRAM, func(p targets) string { return p.Datagram }), true},
		{"socket: pair of datagrams, connected to an abstract one", pair(unix.SOCK_DGRAM, func(p targets) string { return p.Abstract }), true},
		{"socket: raw pair, connected", pair(unix.SOCK_RAW, func(p targets) string { return p.Datagram }), true},
		{"socket: pair of datagrams with flags", pair(unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, func(p targets) string { return p.Datagram }), true},
		{"socket: pair of datagrams, sent elsewhere", sendTo(unix.SOCK_DGRAM), true},
		{"socket: pair of streams, connected", pair(unix.SOCK_STREAM, func(p targets) string { return p.Stream }), false},
		{"socket: pair of packets, connected", pair(unix.SOCK_SEQPACKET, func(p targets) string { return p.Stream }), false},
		{"socket: pair of streams, sent elsewhere", sendTo(unix.SOCK_STREAM), false},
		{"socket: local with high bits", func(targets) error { return call(unix.SYS_SOCKET, unix.AF_UNIX|1<<32, unix.SOCK_STREAM, 0) }, true},
		{"socket: TCP on the machine's loopback", dial("tcp", func(p targets) string { return p.TCP }), true},
		{"socket: name service", func(p targets) error {
			_, err := net.LookupHost("example.com")
			return err
		}, false},
		{"socket: away", dial("tcp", func(targets) string { return "1.1.1.1:53" }), false},
		{"socket: vsock", socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0), false},
		{"socket: packet", socket(unix.AF_PACKET, unix.SOCK_RAW, 0), false},
		{"socket: raw", socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP), false},
		{"socket: kernel crypto", socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0), false},
		{"socket: bluetooth", socket(unix.AF_BLUETOOTH, unix.SOCK_RAW, 0), false},
		{"socket: kernel events", socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT), false},
		{"socket: netlink audit", socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT), false},
		{"socket: netfilter", socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER), false},
	}
}

func ipcEscapes() []escape {
	return []escape{
		{"ipc: shared memory, SysV", func(p targets) error { return call(unix.SYS_SHMGET, uintptr(p.ShmKey), 0, 0) }, true},
		{"ipc: shared memory, POSIX", func(p targets) error { return reads("/dev/shm/" + p.Shm) }, true},
		{"ipc: message queues", func(targets) error { return exists("/dev/mqueue") }, false},
		{"ipc: session keyring", func(targets) error {
			_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true)
			return err
		}, true},
		{"ipc: user keyring", func(targets) error {
			_, err := unix.KeyctlSearch(unix.KEY_SPEC_USER_KEYRING, "user", canary, 0)
			return err
		}, false},
		{"ipc: add a key", func(targets) error {
			_, err := unix.AddKey("user", canary+"-2", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
			return err
		}, true},
		{"ipc: request a key", func(targets) error { _, err := unix.RequestKey("user", canary, "", 0); return err }, false},
		{"ipc: type on the terminal", func(targets) error {
			c := byte('x')
			return call(unix.SYS_IOCTL, 0, unix.TIOCSTI, uintptr(unsafe.Pointer(&c)))
		}, false},
		{"ipc: type on the terminal, with high bits", func(targets) error {
			c := byte('x')
			return call(unix.SYS_IOCTL, 0, unix.TIOCSTI|1<<32, uintptr(unsafe.Pointer(&c)))
		}, false},
		{"ipc: paste on the console", func(targets) error {
			c := byte(3)
			return call(unix.SYS_IOCTL, 0, unix.TIOCLINUX, uintptr(unsafe.Pointer(&c)))
		}, false},
		{"ipc: the terminal", func(targets) error { return writes("/dev/tty") }, false},
	}
}

func kernelEscapes() []escape {
	denied := func(number int, args ...uintptr) func(targets) error {
		// EFAULT and EINVAL come from the call itself: it was not refused.
		return func(targets) error {
			err := call(number, args...)
			if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EACCES) {
				return err
			}
			return nil
		}
	}
	return []escape{
		{"kernel: io_uring", denied(unix.SYS_IO_URING_SETUP, 1, 0), true},
		{"kernel: userfaultfd", denied(unix.SYS_USERFAULTFD, 1), false},
		{"kernel: bpf", denied(unix.SYS_BPF, 0, 0, 0), false},
		{"kernel: perf_event_open", denied(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0), false},
		{"kernel: fanotify", denied(unix.SYS_FANOTIFY_INIT, 0, 0), false},
		{"kernel: memory that is not counted", denied(unix.SYS_MEMFD_CREATE, bytePtr("x"), 0), true},
		{"kernel: log", denied(unix.SYS_SYSLOG, 10, 0, 0), false},
		{"kernel: reboot", denied(unix.SYS_REBOOT, 0, 0, 0), false},
		{"kernel: module", denied(unix.SYS_INIT_MODULE, 0, 0, 0), false},
		{"kernel: kexec", denied(unix.SYS_KEXEC_LOAD, 0, 0, 0, 1<<20), false},
		{"kernel: clock", denied(unix.SYS_CLOCK_SETTIME, 0, 0), false},
		{"kernel: swap", denied(unix.SYS_SWAPON, 0, 0), false},
		{"kernel: host name", denied(unix.SYS_SETHOSTNAME, bytePtr("x"), 1), false},
		{"kernel: personality", denied(unix.SYS_PERSONALITY, 0x0040000), true},
		{"kernel: a call to come", denied(600), false},
		{"kernel: x32", func(targets) error { return call(0x40000000|41, unix.AF_UNIX, unix.SOCK_STREAM, 0) }, false},
		{"kernel: x32 getpid", func(targets) error { return call(0x40000000 | 39) }, false},
	}
}

// result is the result of an escape: Fault is "" if it worked.
type result struct{ Name, Fault string }

// runEscapes tries the escapes, each in its own process, and prints the results.
func runEscapes(args []string) error {
	var results []result
	for _, e := range escapes() {
		switch {
		case len(args) == 1:
		case args[1] == "outside" && !e.works, args[1] == "sockets" && !strings.HasPrefix(e.name, "socket"):
			continue
		}
		cmd := exec.Command(os.Args[0], escapeCommand, args[0], e.name)
		cmd.Stdin = os.Stdin
		out, err := cmd.CombinedOutput()
		if err != nil && len(out) == 0 {
			out = []byte(err.Error())
		}
		results = append(results, result{e.name, string(out)})
	}
	return json.NewEncoder(os.Stdout).Encode(results)
}

// runEscape tries one escape.
func runEscape(args []string) error {
	var p targets
	if err := json.Unmarshal([]byte(args[0]), &p); err != nil {
		return err
	}
	for _, e := range escapes() {
		if e.name == args[1] {
			return e.try(p)
		}
	}
	return errors.New("unknown escape")
}

// newTargets makes the targets of the escapes.
func newTargets(t *testing.T) targets {
	t.Helper()
	base := t.TempDir()
	p := targets{
		Folder: filepath.Join(base, "bin"), Work: filepath.Join(base, "work"), Self: self(t),
		Abstract: fmt.Sprintf("@box-test-%d", os.Getpid()), ShmKey: 0x0b0c0000 + os.Getpid()&0xffff, Shm: fmt.Sprintf("box-test-%d", os.Getpid()),
	}
	// The sockets are in the working folder, which the sandbox can reach.
	p.Secret, p.Stream, p.Datagram = filepath.Join(p.Folder, "secret"), filepath.Join(p.Work, "s"), filepath.Join(p.Work, "d")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(p.Folder, 0o700))
	must(os.Mkdir(p.Work, 0o700))
	must(os.WriteFile(p.Secret, []byte(canary), 0o600))
	must(os.WriteFile("/dev/shm/"+p.Shm, []byte(canary), 0o600))
	t.Cleanup(func() { os.Remove("/dev/shm/" + p.Shm) })
	id, err := unix.SysvShmGet(p.ShmKey, 4096, unix.IPC_CREAT|0o600)
	must(err)
	t.Cleanup(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })
	stream, err := net.Listen("unix", p.Stream)
	must(err)
	t.Cleanup(func() { stream.Close() })
	for _, name := range []string{p.Datagram, p.Abstract} {
		c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
		must(err)
		t.Cleanup(func() { c.Close() })
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	t.Cleanup(func() { tcp.Close() })
	p.TCP = tcp.Addr().String()

	victim := exec.Command("sleep", "600")
	victim.Env = []string{"CANARY=" + canary}
	victim.Args[0] = "sleep-" + canary
	victim.Stdin = bytes.NewReader(nil)
	must(victim.Start())
	t.Cleanup(func() { _ = victim.Process.Kill(); _ = victim.Wait() })
	p.PID = victim.Process.Pid

	f, err := os.OpenFile(p.Secret, os.O_RDWR, 0)
	must(err)
	t.Cleanup(func() { f.Close() })
	p.FD, err = unix.FcntlInt(f.Fd(), unix.F_DUPFD, 100) // without close-on-exec
	must(err)
	t.Cleanup(func() { unix.Close(p.FD) })

	// If we are root, this program makes any user root.
	id1, err := os.ReadFile("/usr/bin/id")
	must(err)
	must(os.WriteFile(filepath.Join(p.Work, "setuid"), id1, 0o755))
	must(os.Chmod(filepath.Join(p.Work, "setuid"), 0o755|os.ModeSetuid))
	return p
}
