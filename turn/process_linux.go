package turn

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentstateloop/internal/boot"
)

// bootID returns the id of this boot of the kernel. A pid is valid in one boot.
func bootID() (string, error) { return boot.ID() }

// statFields is the number of fields that lookUp reads after the name in proc_pid_stat(5). The
// last one is the start time of the process.
const statFields = 20

// lookUp reads proc_pid_stat(5). A zombie counts as gone: if pid 1 does not reap, as in many
// containers, the zombie stays forever.
func lookUp(pid int) (proc, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return proc{}, err
	}
	// Only the name, field 2, may contain blanks and parentheses.
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < statFields {
		return proc{}, fmt.Errorf("read /proc/%d/stat: %d fields", pid, len(f))
	}
	if f[0] == "Z" || f[0] == "X" {
		return proc{}, fmt.Errorf("process %d has ended", pid)
	}
	parent, err1 := strconv.Atoi(f[1])
	group, err2 := strconv.Atoi(f[2])
	return proc{pid: pid, parent: parent, group: group, start: f[statFields-1]}, errors.Join(err1, err2)
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

// belongsTo reports whether the kernel shows that the process was started for the attempt in dir:
// its environment names the attempt's context folder, or it holds the lock on alive. Another
// process cannot force either on it.
func (p proc) belongsTo(dir string) bool {
	return slices.Contains(p.environ(), contextEntry(dir)) || p.locks(filepath.Join(dir, aliveName))
}

// environTries is how often environ reads an empty environment, pollEvery apart: during an exec,
// the environment of a process is empty for an instant.
const environTries = 5

// environ returns the environment with which the process was started, or nil if we cannot read
// it.
func (p proc) environ() []string {
	for range environTries {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid))
		if err != nil {
			return nil
		}
		if len(b) > 0 {
			return strings.Split(string(b), "\x00")
		}
		time.Sleep(pollEvery)
	}
	return nil
}

// locks reports whether the process has the file at path open with a lock on it, opened under
// that path. A link to a file of another process does not count.
func (p proc) locks(path string) bool {
	want, err := os.Lstat(path)
	if err != nil {
		return false
	}
	folder, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return false
	}
	path = filepath.Join(folder, filepath.Base(path))
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.pid))
	if err != nil {
		return false
	}
	for _, fd := range fds {
		link := fmt.Sprintf("/proc/%d/fd/%s", p.pid, fd.Name())
		got, err := os.Stat(link)
		if err != nil || !os.SameFile(want, got) {
			continue
		}
		name, _ := os.Readlink(link)
		info, _ := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%s", p.pid, fd.Name()))
		if name == path && bytes.Contains(info, []byte("FLOCK")) {
			return true
		}
	}
	return false
}
