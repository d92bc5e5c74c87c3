package turn

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// bootID returns the id of this boot of the kernel. A pid is valid in one boot.
func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}

// lookUp reads proc_pid_stat(5). A zombie counts as gone: where pid 1 does not
// reap, as in many containers, it stays forever.
func lookUp(pid int) (proc, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return proc{}, err
	}
	// Only the name, which is field 2, may hold blanks and parentheses.
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 20 {
		return proc{}, fmt.Errorf("read /proc/%d/stat: %d fields", pid, len(f))
	}
	if f[0] == "Z" || f[0] == "X" {
		return proc{}, fmt.Errorf("process %d has ended", pid)
	}
	parent, err1 := strconv.Atoi(f[1])
	group, err2 := strconv.Atoi(f[2])
	return proc{pid: pid, parent: parent, group: group, start: f[19]}, errors.Join(err1, err2)
}

// processes returns the living processes of this machine that we may see.
func processes() []proc {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	var all []proc
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if p, err := lookUp(pid); err == nil {
			all = append(all, p)
		}
	}
	return all
}

// groupHolds reports whether a process of the group has the file at path open. It
// distinguishes an agent's group whose leader is gone from a later group of the
// same number.
func groupHolds(group int, path string) bool {
	want, err := os.Stat(path)
	if err != nil {
		return false
	}
	for _, p := range processes() {
		if p.group != group {
			continue
		}
		dir := fmt.Sprintf("/proc/%d/fd/", p.pid)
		fds, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, fd := range fds {
			got, err := os.Stat(dir + fd.Name())
			if err == nil && os.SameFile(want, got) {
				return true
			}
		}
	}
	return false
}
