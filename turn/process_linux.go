package turn

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// bootID names this run of the kernel; a pid means nothing in another one.
func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}

// procStat is what proc_pid_stat(5) says of one process.
type procStat struct {
	zombie bool
	group  int
	start  string // clock ticks after boot
}

func readStat(pid string) (procStat, error) {
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return procStat{}, err
	}
	// The name, field 2, may hold blanks and parentheses; the rest may not.
	_, rest, _ := bytes.Cut(b[bytes.LastIndexByte(b, ')')+1:], []byte(" "))
	f := strings.Fields(string(rest))
	if len(f) < 20 {
		return procStat{}, fmt.Errorf("read /proc/%s/stat: %d fields", pid, len(f))
	}
	group, err := strconv.Atoi(f[2])
	return procStat{zombie: f[0] == "Z" || f[0] == "X", group: group, start: f[19]}, err
}

// startTime tells one process from another that later got the same pid. A
// zombie counts as gone.
func startTime(pid int) (string, error) {
	st, err := readStat(strconv.Itoa(pid))
	if err != nil {
		return "", err
	}
	if st.zombie {
		return "", fmt.Errorf("process %d has ended", pid)
	}
	return st.start, nil
}

// members lists the living processes of a group. Zombies are left out: where
// pid 1 reaps nothing, as in many containers, they stay for ever.
func members(group int) []string {
	if unix.Kill(-group, 0) == unix.ESRCH {
		return nil
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []string
	for _, e := range entries {
		if e.Name()[0] < '0' || e.Name()[0] > '9' {
			continue
		}
		if st, err := readStat(e.Name()); err == nil && st.group == group && !st.zombie {
			pids = append(pids, e.Name())
		}
	}
	return pids
}

// groupLives says whether anything of the group still runs.
func groupLives(group int) bool { return len(members(group)) > 0 }

// groupHolds says whether a process of the group has the file at path open.
// It tells an agent's group whose leader is gone from another that got the
// same number.
func groupHolds(group int, path string) bool {
	want, err := os.Stat(path)
	if err != nil {
		return false
	}
	for _, pid := range members(group) {
		fds, err := os.ReadDir("/proc/" + pid + "/fd")
		if err != nil {
			continue
		}
		for _, fd := range fds {
			got, err := os.Stat("/proc/" + pid + "/fd/" + fd.Name())
			if err == nil && os.SameFile(want, got) {
				return true
			}
		}
	}
	return false
}
