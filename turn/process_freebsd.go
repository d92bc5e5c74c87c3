package turn

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// The members of struct kinfo_proc of sys/user.h on machines with 64 bits, by their offset.
const (
	kinfoSize   = 1088
	kinfoPID    = 72
	kinfoParent = 76
	kinfoGroup  = 80
	kinfoStart  = 336 // seconds and microseconds, of 8 bytes each
	kinfoState  = 388

	zombie = 5 // SZOMB of sys/proc.h
)

// bootID returns the same for each boot, because FreeBSD does not number them. The start of a
// process is the time since the boot, to the microsecond, so another process of another boot
// with the same pid has another start.
func bootID() (string, error) { return "freebsd", nil }

// fromKernel reads a struct kinfo_proc. The kernel adds the time of the boot to the start of a
// process, and changes both when the clock is set.
func fromKernel(k []byte, boot *unix.Timeval) (proc, error) {
	if len(k) < kinfoSize {
		return proc{}, unix.ESRCH
	}
	number := func(at int) int { return int(int32(binary.LittleEndian.Uint32(k[at:]))) }
	start := func(at int) int64 { return int64(binary.LittleEndian.Uint64(k[kinfoStart+at:])) }
	p := proc{
		pid: number(kinfoPID), parent: number(kinfoParent), group: number(kinfoGroup),
		start: fmt.Sprint((start(0)-boot.Sec)*1e6 + start(8) - boot.Usec),
	}
	if k[kinfoState] == zombie {
		return proc{}, fmt.Errorf("process %d has ended", p.pid)
	}
	return p, nil
}

// lookUp asks the kernel about one process. A zombie counts as gone.
func lookUp(pid int) (proc, error) {
	boot, err := unix.SysctlTimeval("kern.boottime")
	if err != nil {
		return proc{}, err
	}
	k, err := unix.SysctlRaw("kern.proc.pid", pid)
	if err != nil {
		return proc{}, err
	}
	return fromKernel(k, boot)
}

// processes returns the living processes of this machine that we may see.
func processes() []proc {
	boot, err := unix.SysctlTimeval("kern.boottime")
	if err != nil {
		return nil
	}
	list, err := unix.SysctlRaw("kern.proc.proc")
	for errors.Is(err, unix.ENOMEM) { // there are more than a moment ago
		list, err = unix.SysctlRaw("kern.proc.proc")
	}
	var all []proc
	for ; len(list) >= kinfoSize; list = list[kinfoSize:] {
		if p, err := fromKernel(list, boot); err == nil {
			all = append(all, p)
		}
	}
	return all
}

// belongsTo reports whether the process was started for the attempt in dir: its environment names
// the attempt's context folder.
func (p proc) belongsTo(dir string) bool {
	raw, err := unix.SysctlRaw("kern.proc.env", p.pid)
	return err == nil && bytes.Contains(append([]byte("\x00"), raw...), []byte("\x00"+contextEntry(dir)+"\x00"))
}
