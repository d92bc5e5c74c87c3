package box

import (
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// archs are the machines whose system calls we can filter. On others nothing runs in a box.
var archs = map[string]uint32{
	"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64, "riscv64": unix.AUDIT_ARCH_RISCV64,
}

// endOfCalls is the first system call that was not known when this filter was
// written. Newer ones, and the second set of numbers that amd64 has for its x32, do
// not exist in a box.
const endOfCalls = unix.SYS_LISTNS + 1

// Where struct seccomp_data has its fields. Of an argument this is the lower half on
// the machines of archs.
const (
	atNumber = 0
	atArch   = 4
	atArgs   = 16
)

// refused are system calls that a program in a box cannot make. They trace or reach
// into other processes, change the machine, mounts or namespaces, open files past the
// mounts, or widen what the kernel must withstand.
func refused() []uint32 {
	return append([]uint32{
		// other processes, and keys that belong to the user and not to the box
		unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_KCMP,
		unix.SYS_PIDFD_GETFD, unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE,
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
	}, refusedHere()...)
}

// absent are system calls that do not exist in a box. Programs do without them, as on
// an older kernel. Arguments of the first cannot be filtered, io_uring makes other
// calls past the filter, and the memory of the last two is not counted.
var absent = []uint32{
	unix.SYS_CLONE3, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_MEMFD_CREATE, sysMemfdSecret,
}

// sysMemfdSecret is missing for some machines in package unix.
const sysMemfdSecret = 447

// namespaces are the flags of clone(2) that make a namespace.
const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP

// socketTypes masks the flags from a type of socket.
const socketTypes = 0xf

// personalityQuery asks personality(2) for the present one.
const personalityQuery = 0xffffffff

// filterCalls denies system calls to what this thread becomes. The caller has set
// no_new_privs and locked the thread.
//
// Sockets are those of the internet, and netlink to look at the interfaces: a local
// socket may belong to a service that runs programs, and vsock leads to the host of a
// virtual machine. A pair of connected streams is allowed, one of datagrams is not,
// because such a socket can be connected to another address later.
func filterCalls() error {
	arch, ok := archs[runtime.GOARCH]
	if !ok {
		return fmt.Errorf("system calls of %s cannot be filtered", runtime.GOARCH)
	}
	filter := []unix.SockFilter{load(atArch), jump(unix.BPF_JEQ, arch, 1, 0), fail(unix.EPERM), load(atNumber)}
	filter = append(filter, when(unix.BPF_JGE, endOfCalls, fail(unix.ENOSYS))...)
	for _, call := range absent {
		filter = append(filter, when(unix.BPF_JEQ, call, fail(unix.ENOSYS))...)
	}
	for _, call := range refused() {
		filter = append(filter, when(unix.BPF_JEQ, call, fail(unix.EPERM))...)
	}
	filter = append(filter, when(unix.BPF_JEQ, unix.SYS_CLONE,
		load(arg(0)), jump(unix.BPF_JSET, namespaces, 1, 0), allow, fail(unix.EPERM))...)
	filter = append(filter, when(unix.BPF_JEQ, unix.SYS_SOCKET, slices.Concat(
		[]unix.SockFilter{load(arg(0))},
		when(unix.BPF_JEQ, unix.AF_INET, allow),
		when(unix.BPF_JEQ, unix.AF_INET6, allow),
		when(unix.BPF_JEQ, unix.AF_NETLINK, load(arg(2)), jump(unix.BPF_JEQ, unix.NETLINK_ROUTE, 1, 0), fail(unix.EACCES), allow),
		[]unix.SockFilter{fail(unix.EACCES)},
	)...)...)
	filter = append(filter, when(unix.BPF_JEQ, unix.SYS_SOCKETPAIR, slices.Concat(
		[]unix.SockFilter{load(arg(1)), {Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: socketTypes}},
		when(unix.BPF_JEQ, unix.SOCK_STREAM, allow),
		when(unix.BPF_JEQ, unix.SOCK_SEQPACKET, allow),
		[]unix.SockFilter{fail(unix.EACCES)},
	)...)...)
	filter = append(filter, when(unix.BPF_JEQ, unix.SYS_IOCTL, slices.Concat(
		[]unix.SockFilter{load(arg(1))},
		when(unix.BPF_JEQ, unix.TIOCSTI, fail(unix.EPERM)),   // types on the terminal of another
		when(unix.BPF_JEQ, unix.TIOCLINUX, fail(unix.EPERM)), // pastes there
		[]unix.SockFilter{allow},
	)...)...)
	filter = append(filter, when(unix.BPF_JEQ, unix.SYS_PERSONALITY, slices.Concat(
		[]unix.SockFilter{load(arg(0))},
		when(unix.BPF_JEQ, 0, allow),
		when(unix.BPF_JEQ, personalityQuery, allow),
		[]unix.SockFilter{fail(unix.EPERM)},
	)...)...)
	filter = append(filter, allow)

	fprog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&fprog)))
	runtime.KeepAlive(filter)
	if errno != 0 {
		return errno
	}
	return nil
}

var allow = unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}

// fail lets the system call fail.
func fail(errno unix.Errno) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)}
}

// load loads a field of struct seccomp_data.
func load(at uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
}

// arg is where the argument i of a system call is.
func arg(i uint32) uint32 { return atArgs + 8*i }

// jump compares what was loaded with k, and skips yes or no instructions.
func jump(how uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | how | unix.BPF_K, K: k, Jt: yes, Jf: no}
}

// when runs what follows if the comparison holds, and skips it if not. What follows
// must end with a verdict, because it may load something else.
func when(how uint16, k uint32, then ...unix.SockFilter) []unix.SockFilter {
	return append([]unix.SockFilter{jump(how, k, 0, uint8(len(then)))}, then...)
}
