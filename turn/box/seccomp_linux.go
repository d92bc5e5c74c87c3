package box

import (
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// arch returns the audit number of this architecture, if we can filter its system calls.
// Without a filter we run nothing in a sandbox.
func arch() (number uint32, ok bool) {
	switch runtime.GOARCH {
	case "amd64":
		return unix.AUDIT_ARCH_X86_64, true
	case "arm64":
		return unix.AUDIT_ARCH_AARCH64, true
	case "riscv64":
		return unix.AUDIT_ARCH_RISCV64, true
	}
	return 0, false
}

// endOfCalls is the first system call number that was unknown when this filter was written.
// Newer calls do not exist in a sandbox, nor does the second set of numbers that amd64 has for
// its x32.
const endOfCalls = unix.SYS_LISTNS + 1

// Offsets of the fields of struct seccomp_data. For an argument this is the lower half on the
// supported architectures.
const (
	atNumber = 0
	atArch   = 4
	atArgs   = 16
)

// refusedCalls are system calls that a program in a sandbox cannot make. They trace or reach into
// other processes, change the machine, mounts or namespaces, open files past the mounts, or
// enlarge the kernel's attack surface.
func refusedCalls() []uint32 {
	return append([]uint32{
		// other processes, and keys of the user rather than of the sandbox
		unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP,
		unix.SYS_PIDFD_GETFD, unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE,
		unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR, unix.SYS_IOPRIO_SET,
		unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
		// mounts and namespaces
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_SETNS, unix.SYS_UNSHARE,
		unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR, unix.SYS_MOVE_MOUNT, unix.SYS_MOUNT_SETATTR,
		unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
		unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_FANOTIFY_INIT, unix.SYS_FANOTIFY_MARK,
		unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_LISTNS,
		// the machine
		unix.SYS_REBOOT, unix.SYS_SYSLOG, unix.SYS_ACCT, unix.SYS_SWAPON, unix.SYS_SWAPOFF,
		unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD,
		unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME,
		unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_VHANGUP,
		// the kernel's larger interfaces
		unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	}, archRefusedCalls()...)
}

// absentCalls are system calls that do not exist in a sandbox. Programs do without them, as on an
// older kernel. The arguments of clone3 and openat2 cannot be filtered, io_uring makes other
// calls past the filter, and the memory of the last two escapes the memory limit.
var absentCalls = []uint32{
	unix.SYS_CLONE3, unix.SYS_OPENAT2, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_MEMFD_CREATE, sysMemfdSecret,
}

// sysMemfdSecret is missing from package unix for some architectures.
const sysMemfdSecret = 447

// namespaces are the flags of clone(2) that make a namespace.
const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP

// setID are the mode bits that give a program the rights of its file's owner or group. With
// them a program in the sandbox could hand our rights to another user.
const setID = unix.S_ISUID | unix.S_ISGID

// createFlags are the flags that make open(2) use its mode argument.
const createFlags = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY

// socketTypes masks out the flags in a socket's type argument.
const socketTypes = 0xf

// personalityQuery makes personality(2) return the current value.
const personalityQuery = 0xffffffff

// filterCalls restricts the system calls of this thread and of the program that it becomes. The
// caller has set no_new_privs and locked the thread. With local, the thread may use unix
// sockets.
func filterCalls(local bool) error {
	arch, ok := arch()
	if !ok {
		return fmt.Errorf("no filter for system calls on %s", runtime.GOARCH)
	}
	filter := callFilter(arch, local)
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(filter)
	if errno != 0 {
		return errno
	}
	return nil
}

// callFilter returns the filter for an architecture.
func callFilter(arch uint32, local bool) []unix.SockFilter {
	filter := []unix.SockFilter{load(atArch), jump(unix.BPF_JEQ, arch, 1, 0), fail(unix.EPERM), load(atNumber)}
	filter = append(filter, when(unix.BPF_JGE, endOfCalls, fail(unix.ENOSYS))...)
	for _, call := range absentCalls {
		filter = append(filter, when(unix.BPF_JEQ, call, fail(unix.ENOSYS))...)
	}
	for _, call := range refusedCalls() {
		filter = append(filter, when(unix.BPF_JEQ, call, fail(unix.EPERM))...)
	}
	filter = append(filter, socketRules(local)...)
	filter = append(filter, modeRules()...)
	return append(append(filter, otherRules()...), allow)
}

// socketRules allow internet sockets, and netlink to look at the interfaces. They refuse local
// sockets, which may belong to a service that runs programs, and vsock, which leads to the host
// of a virtual machine. They allow a pair of connected streams but not of datagrams, because a
// datagram socket can be connected to another address later. With local they allow every unix
// socket.
func socketRules(local bool) []unix.SockFilter {
	var sockets, pairs []unix.SockFilter
	if local {
		sockets, pairs = when(unix.BPF_JEQ, unix.AF_UNIX, allow), []unix.SockFilter{allow}
	}
	return slices.Concat(
		when(unix.BPF_JEQ, unix.SYS_SOCKET, slices.Concat(
			[]unix.SockFilter{load(arg(0))},
			sockets,
			when(unix.BPF_JEQ, unix.AF_INET, allow),
			when(unix.BPF_JEQ, unix.AF_INET6, allow),
			when(unix.BPF_JEQ, unix.AF_NETLINK, load(arg(2)), jump(unix.BPF_JEQ, unix.NETLINK_ROUTE, 1, 0), fail(unix.EACCES), allow),
			[]unix.SockFilter{fail(unix.EACCES)},
		)...),
		when(unix.BPF_JEQ, unix.SYS_SOCKETPAIR, slices.Concat(
			pairs,
			[]unix.SockFilter{load(arg(1)), {Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: socketTypes}},
			when(unix.BPF_JEQ, unix.SOCK_STREAM, allow),
			when(unix.BPF_JEQ, unix.SOCK_SEQPACKET, allow),
			[]unix.SockFilter{fail(unix.EACCES)},
		)...),
	)
}

// modeRules refuse calls that give a file the mode bits setID.
func modeRules() []unix.SockFilter {
	return slices.Concat(
		whenMode(unix.SYS_FCHMOD, 1), whenMode(unix.SYS_FCHMODAT, 2), whenMode(unix.SYS_FCHMODAT2, 2), whenMode(unix.SYS_MKNODAT, 2),
		whenCreated(unix.SYS_OPENAT, 2, 3),
		archModeRules(),
	)
}

// whenMode refuses a call whose argument i has bits of setID.
func whenMode(call, i uint32) []unix.SockFilter {
	return when(unix.BPF_JEQ, call, load(arg(i)), jump(unix.BPF_JSET, setID, 1, 0), allow, fail(unix.EPERM))
}

// whenCreated refuses a call that creates a file with bits of setID. Without the flags of
// creates the call ignores its mode argument, which may have any value.
func whenCreated(call, flags, mode uint32) []unix.SockFilter {
	return when(unix.BPF_JEQ, call,
		load(arg(flags)), jump(unix.BPF_JSET, createFlags, 1, 0), allow,
		load(arg(mode)), jump(unix.BPF_JSET, setID, 1, 0), allow, fail(unix.EPERM))
}

// otherRules refuse certain arguments of calls that are otherwise harmless.
func otherRules() []unix.SockFilter {
	return slices.Concat(
		when(unix.BPF_JEQ, unix.SYS_CLONE, load(arg(0)), jump(unix.BPF_JSET, namespaces, 1, 0), allow, fail(unix.EPERM)),
		when(unix.BPF_JEQ, unix.SYS_IOCTL, slices.Concat(
			[]unix.SockFilter{load(arg(1))},
			when(unix.BPF_JEQ, unix.TIOCSTI, fail(unix.EPERM)),   // types on another terminal
			when(unix.BPF_JEQ, unix.TIOCLINUX, fail(unix.EPERM)), // pastes on another terminal
			[]unix.SockFilter{allow},
		)...),
		when(unix.BPF_JEQ, unix.SYS_PERSONALITY, slices.Concat(
			[]unix.SockFilter{load(arg(0))},
			when(unix.BPF_JEQ, 0, allow),
			when(unix.BPF_JEQ, personalityQuery, allow),
			[]unix.SockFilter{fail(unix.EPERM)},
		)...),
		// A program may limit itself, but not the first process, which watches it.
		when(unix.BPF_JEQ, unix.SYS_PRLIMIT64, load(arg(0)), jump(unix.BPF_JEQ, 0, 0, 1), allow, fail(unix.EPERM)),
		when(unix.BPF_JEQ, unix.SYS_SETPRIORITY, slices.Concat(
			[]unix.SockFilter{load(arg(0)), jump(unix.BPF_JEQ, unix.PRIO_PROCESS, 1, 0), fail(unix.EPERM)},
			[]unix.SockFilter{load(arg(1)), jump(unix.BPF_JEQ, 0, 0, 1), allow, fail(unix.EPERM)},
		)...),
	)
}

var allow = unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}

// fail makes the system call fail with errno.
func fail(errno unix.Errno) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)}
}

// load loads the field of struct seccomp_data at an offset.
func load(at uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
}

// arg returns the offset of argument i of a system call.
func arg(i uint32) uint32 { return atArgs + 8*i }

// jump compares the loaded value with k, and skips yes or no instructions.
func jump(how uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | how | unix.BPF_K, K: k, Jt: yes, Jf: no}
}

// when runs then if the comparison holds, and skips it otherwise. then must end with a verdict,
// because it may load another value.
func when(how uint16, k uint32, then ...unix.SockFilter) []unix.SockFilter {
	return append([]unix.SockFilter{jump(how, k, 0, uint8(len(then)))}, then...)
}
