package react

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// archs are the machines whose system calls we can filter. On others nothing runs
// confined.
var archs = map[string]uint32{
	"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64, "riscv64": unix.AUDIT_ARCH_RISCV64,
}

// x32 is the bit in the numbers by which amd64 makes the same system calls a second
// time.
const x32 = 0x40000000

// forbidSockets denies local sockets to what this thread becomes. A service behind
// one, such as a session bus or a container engine, may run programs unconfined.
// Landlock does not restrict these sockets. Socket pairs and the network stay
// available. The caller has set no_new_privs and locked the thread.
func forbidSockets() error {
	arch, ok := archs[runtime.GOARCH]
	if !ok {
		return fmt.Errorf("system calls of %s cannot be filtered", runtime.GOARCH)
	}
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	jump := func(how uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | how | unix.BPF_K, K: k, Jt: yes, Jf: no}
	}
	end := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	// Offsets are those of struct seccomp_data: nr, arch, the instruction
	// pointer, the arguments.
	program := []unix.SockFilter{
		load(4),
		jump(unix.BPF_JEQ, arch, 0, 6), // the calls of another architecture have other numbers
		load(0),
		jump(unix.BPF_JGE, x32, 4, 0),
		jump(unix.BPF_JEQ, unix.SYS_IO_URING_SETUP, 3, 0), // it can open sockets too
		jump(unix.BPF_JEQ, unix.SYS_SOCKET, 0, 3),
		load(16),
		jump(unix.BPF_JEQ, unix.AF_UNIX, 0, 1),
		end(unix.SECCOMP_RET_ERRNO | uint32(unix.EACCES)),
		end(unix.SECCOMP_RET_ALLOW),
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&filter)))
	runtime.KeepAlive(program)
	if errno != 0 {
		return errno
	}
	return nil
}

// dropCapabilities takes from this thread what root may do beyond other users. Above
// all it could read the memory of processes, such as our own with its key. With
// no_new_privs the program gets none of it back.
func dropCapabilities() error {
	var none [2]unix.CapUserData
	return unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0])
}
