package turn

import (
	"bytes"
	"fmt"

	"agentstateloop/internal/boot"

	"golang.org/x/sys/unix"
)

const zombie = 5 // SZOMB of sys/proc.h

// bootID returns the id of this boot of the kernel. A pid is valid in one boot.
func bootID() (string, error) { return boot.ID() }

func fromKernel(k *unix.KinfoProc) (proc, error) {
	p := proc{
		pid: int(k.Proc.P_pid), parent: int(k.Eproc.Ppid), group: int(k.Eproc.Pgid),
		start: fmt.Sprintf("%d.%06d", k.Proc.P_starttime.Sec, k.Proc.P_starttime.Usec),
	}
	if k.Proc.P_stat == zombie {
		return proc{}, fmt.Errorf("process %d has ended", p.pid)
	}
	return p, nil
}

// lookUp asks the kernel about one process. A zombie counts as gone.
func lookUp(pid int) (proc, error) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return proc{}, err
	}
	return fromKernel(k)
}

// processes returns the living processes of this machine that we may see.
func processes() []proc {
	list, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		return nil
	}
	var all []proc
	for i := range list {
		if p, err := fromKernel(&list[i]); err == nil {
			all = append(all, p)
		}
	}
	return all
}

// belongsTo reports whether the process was started for the attempt in dir: its environment names
// the attempt's context folder. The kernel hides the environment of the system's own programs,
// such as /bin/sh. Such a process belongs if it leads a session, as an agent does.
func (p proc) belongsTo(dir string) bool {
	raw, err := unix.SysctlRaw("kern.procargs2", p.pid)
	if err != nil {
		return false
	}
	if bytes.Contains(raw, []byte("\x00"+contextEntry(dir)+"\x00")) {
		return true
	}
	session, err := unix.Getsid(p.pid)
	return err == nil && session == p.pid && !bytes.Contains(raw, []byte("\x00PATH="))
}
