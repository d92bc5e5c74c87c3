package box

import (
	"slices"

	"golang.org/x/sys/unix"
)

// archRefusedCalls are refused calls that only this architecture has.
func archRefusedCalls() []uint32 {
	return []uint32{
		unix.SYS_KEXEC_FILE_LOAD, unix.SYS_IOPL, unix.SYS_IOPERM, unix.SYS_MODIFY_LDT, unix.SYS_LOOKUP_DCOOKIE,
		unix.SYS_USELIB, unix.SYS_USTAT, unix.SYS_SYSFS, unix.SYS__SYSCTL, unix.SYS_CREATE_MODULE, unix.SYS_NFSSERVCTL,
	}
}

// archModeRules are modeRules for calls that only this architecture has.
func archModeRules() []unix.SockFilter {
	return slices.Concat(whenMode(unix.SYS_CHMOD, 1), whenMode(unix.SYS_CREAT, 1), whenMode(unix.SYS_MKNOD, 1), whenCreated(unix.SYS_OPEN, 1, 2))
}
