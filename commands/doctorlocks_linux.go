package commands

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"agentstateloop/internal/plain"
)

// lockHolder finds the process that holds a flock on a file, in proc_locks(5).
func lockHolder(proc, path string) (h holder, holds bool, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return holder{}, false, nil // never taken
	}
	if err != nil {
		return holder{}, false, err
	}
	inode := info.Sys().(*syscall.Stat_t).Ino
	table, err := os.ReadFile(filepath.Join(proc, "locks"))
	if err != nil {
		return holder{}, false, fmt.Errorf("who holds them cannot be told here: %w", err)
	}
	for line := range strings.Lines(string(table)) {
		// 1: FLOCK  ADVISORY  WRITE 4312 08:01:131076 0 EOF; one that waits has "->".
		f := strings.Fields(line)
		if len(f) < 6 || f[1] != "FLOCK" {
			continue
		}
		pid, err := strconv.Atoi(f[4])
		_, number, _ := cutLast(f[5], ":")
		if err != nil || number != strconv.FormatUint(inode, 10) || !hasOpen(proc, pid, path) {
			continue
		}
		return describe(proc, pid), true, nil
	}
	return holder{}, false, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// hasOpen tells a file from one of the same inode number on another file system,
// whose device the kernel does not always name as stat(2) does. Of a process
// whose files we may not see it is believed.
func hasOpen(proc string, pid int, path string) bool {
	dir := filepath.Join(proc, strconv.Itoa(pid), "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return true
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return true
	}
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && to == real {
			return true
		}
	}
	return false
}

// describe reads proc_pid_stat(5); what cannot be read is left out.
func describe(proc string, pid int) holder {
	h := holder{pid: pid, command: "unknown"}
	dir := filepath.Join(proc, strconv.Itoa(pid))
	if argv, err := os.ReadFile(filepath.Join(dir, "cmdline")); err == nil {
		h.command = plain.Line(string(bytes.ReplaceAll(argv, []byte{0}, []byte(" "))))
	}
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return h
	}
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	uptime, err := os.ReadFile(filepath.Join(proc, "uptime"))
	if err != nil || len(f) < 20 {
		return h
	}
	h.stopped = f[0] == "T" || f[0] == "t"
	const ticks = 100 // USER_HZ, on every architecture that Go knows
	up, _, _ := strings.Cut(string(uptime), " ")
	now, err1 := strconv.ParseFloat(up, 64)
	start, err2 := strconv.ParseFloat(f[19], 64)
	if err1 == nil && err2 == nil {
		h.age = max(0, time.Duration((now-start/ticks)*float64(time.Second)))
	}
	return h
}
