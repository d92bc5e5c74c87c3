package cron

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// daemons are the names under which crons run.
var daemons = []string{"cron", "crond", "fcron", "dcron", "anacron", "bcron-start", "cronie"}

// pidFiles are where those that write one do.
var pidFiles = []string{"/run/crond.pid", "/run/cron.pid", "/run/fcron.pid", "/var/run/crond.pid", "/var/run/cron.pid"}

// Daemon looks for a running cron. known is false where it cannot be told:
// there is no procfs, or it hides the processes of others.
func Daemon(proc string) (name string, pid int, known bool) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return "", 0, false
	}
	foreign := false // a process of somebody else was seen
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
		// A process whose kind is hidden from us is believed to be what its file says.
		if err == nil && !foreign && pid > 1 && processExists(pid) {
			return strings.TrimSuffix(filepath.Base(file), ".pid"), pid, true
		}
	}
	return "", 0, foreign
}

// daemonName finds a cron in the arguments of a process, which end in NULs.
func daemonName(cmdline []byte) string {
	argv := strings.Split(string(cmdline), "\x00")
	name := filepath.Base(argv[0])
	if name == "busybox" && len(argv) > 1 {
		name = filepath.Base(argv[1])
	}
	// Some write their title over: "cron: running".
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
