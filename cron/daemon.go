package cron

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// daemons are the names of cron daemons.
var daemons = []string{"cron", "crond", "fcron", "dcron", "anacron", "bcron-start", "cronie"}

// pidFiles are the files of cron daemons for their process id.
var pidFiles = []string{"/run/crond.pid", "/run/cron.pid", "/run/fcron.pid", "/var/run/crond.pid", "/var/run/cron.pid"}

// Daemon returns the name and process id of a running cron daemon, or "" and 0. proc is the
// root of procfs: "/proc". known is false if procfs is missing or hides the processes of other
// users.
func Daemon(proc string) (name string, pid int, known bool) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return "", 0, false
	}
	foreign := false // we have seen a process of another user
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		argv, err := os.ReadFile(filepath.Join(proc, e.Name(), "cmdline"))
		if err != nil {
			continue
		}
		foreign = foreign || pid == 1
		if name := daemonName(argv); name != "" {
			return name, pid, true
		}
	}
	for _, file := range pidFiles {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		// The process is hidden from us, so trust the pid file.
		if err == nil && !foreign && pid > 1 && processExists(pid) {
			return strings.TrimSuffix(filepath.Base(file), ".pid"), pid, true
		}
	}
	return "", 0, foreign
}

// daemonName returns the name of a cron daemon in cmdline, or "". Each argument in cmdline ends
// in a NUL.
func daemonName(cmdline []byte) string {
	argv := strings.Split(string(cmdline), "\x00")
	name := filepath.Base(argv[0])
	if name == "busybox" && len(argv) > 1 {
		name = filepath.Base(argv[1])
	}
	// Some daemons change their title: "cron: running".
	name, _, _ = strings.Cut(name, ":")
	name, _, _ = strings.Cut(name, " ")
	if slices.Contains(daemons, strings.ToLower(name)) {
		return name
	}
	return ""
}

func processExists(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || err == syscall.EPERM
}
