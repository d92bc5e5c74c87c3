package turn

import (
	"fmt"

	"golang.org/x/sys/unix"
)

const zombie = 5 // SZOMB of sys/proc.h

// bootID names this run of the kernel; a pid means nothing in another one.
func bootID() (string, error) { return unix.Sysctl("kern.bootsessionuuid") }

// startTime tells one process from another that later got the same pid. A
// zombie counts as gone.
func startTime(pid int) (string, error) {
	k, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return "", err
	}
	if k.Proc.P_stat == zombie {
		return "", fmt.Errorf("process %d has ended", pid)
	}
	return fmt.Sprintf("%d.%06d", k.Proc.P_starttime.Sec, k.Proc.P_starttime.Usec), nil
}

// groupLives says whether anything of the group still runs.
func groupLives(group int) bool {
	procs, err := unix.SysctlKinfoProcSlice("kern.proc.pgrp", group)
	if err != nil {
		return unix.Kill(-group, 0) != unix.ESRCH
	}
	for _, k := range procs {
		if k.Proc.P_stat != zombie {
			return true
		}
	}
	return false
}

// groupHolds cannot be known here without private calls; a group whose leader
// is gone is left alone, and abandoned.
func groupHolds(int, string) bool { return false }
