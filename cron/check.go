package cron

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// What can be said of cron without changing anything, from the file system and
// from procfs, whose root the callers give: "/proc".

// JobPath is the PATH that cron gives a job, if the table sets no other.
const JobPath = "/usr/bin:/bin"

// Obstacle says why the crontab program cannot write a table that it may well
// be able to read; "" where nothing is known to be in its way. It lives from
// being setgid or setuid, which a process that may gain no privileges (systemd's
// NoNewPrivileges=, a container's no-new-privileges) and a file system that is
// mounted nosuid take away.
func (t Table) Obstacle(proc string) string {
	if os.Geteuid() == 0 {
		return ""
	}
	program, err := exec.LookPath(t.command())
	if err != nil {
		return ""
	}
	info, err := os.Stat(program)
	if err != nil || info.Mode()&(os.ModeSetuid|os.ModeSetgid) == 0 {
		return ""
	}
	status, err := os.ReadFile(filepath.Join(proc, "self", "status"))
	if err == nil && bytes.Contains(status, []byte("\nNoNewPrivs:\t1\n")) {
		return fmt.Sprintf("%s needs its set-id bit, and this process may gain no privileges (NoNewPrivs)", program)
	}
	if mountedNosuid(program) {
		return fmt.Sprintf("%s needs its set-id bit, and lies on a file system that is mounted nosuid", program)
	}
	return ""
}

// setting is an environment line of a table (crontab(5)).
var setting = regexp.MustCompile(`^[ \t]*("[A-Za-z_]\w*"|'[A-Za-z_]\w*'|[A-Za-z_]\w*)[ \t]*=[ \t]*(.*?)[ \t\r]*$`)

// Environ is what agent's job gets of the table: the variables that are set
// above its line, or in the whole table where it has none, as "NAME=value", the
// last of each name.
func Environ(table []byte, agent string) []string {
	var env []string
	for line := range bytes.Lines(table) {
		if isOurs(line, agent) {
			break
		}
		m := setting.FindSubmatch(bytes.TrimSuffix(line, []byte("\n")))
		if m == nil {
			continue
		}
		name, value := unquoted(string(m[1])), unquoted(string(m[2]))
		env = slices.DeleteFunc(env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
		env = append(env, name+"="+value)
	}
	return env
}

func unquoted(s string) string {
	if n := len(s); n >= 2 && s[0] == s[n-1] && (s[0] == '"' || s[0] == '\'') {
		return s[1 : n-1]
	}
	return s
}

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
		if err == nil && !foreign && pid > 1 && lives(pid) {
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

func lives(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || err == syscall.EPERM
}
