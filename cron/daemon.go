package cron

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"agentstateloop/internal/lazy"
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

// Obstacle returns the reason why the crontab program cannot write a table, even if it can read
// one, or "" if it finds no reason. crontab needs its setgid or setuid bit. The bit has no
// effect in a process that may not gain privileges (NoNewPrivileges= of systemd,
// no-new-privileges of a container), and on a file system that is mounted nosuid. proc is the
// root of procfs: "/proc".
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
		return fmt.Sprintf("%s needs its set-id bit, and this process is not allowed to gain privileges (NoNewPrivs)", program)
	}
	if mountedNosuid(program) {
		return fmt.Sprintf("%s needs its set-id bit, and its file system is mounted nosuid", program)
	}
	return ""
}

// ErrHangs reports that a crontab process timed out, or was not started because an earlier
// process timed out under the same [Patient] context.
var ErrHangs = errors.New("timed out")

// Patient returns a context that limits the cost of a hanging crontab program to about one
// timeout, regardless of the number of calls. After a process has timed out, no other is
// started. A process that timed out while writing the table is an exception: the table must
// still be read and perhaps restored. These processes get a tenth of the timeout each, until
// one of them times out, too.
func Patient(ctx context.Context) context.Context {
	if ctx.Value(patienceKey{}) != nil {
		return ctx
	}
	return context.WithValue(ctx, patienceKey{}, new(atomic.Int32))
}

// patienceKey is the key of the patience of a context: full, little or no patience.
type patienceKey struct{}

const (
	fullPatience = iota
	littlePatience
	noPatience
)

// patience returns the patience of a Patient context, or a new full one.
func patience(ctx context.Context) *atomic.Int32 {
	if left, ok := ctx.Value(patienceKey{}).(*atomic.Int32); ok {
		return left
	}
	return new(atomic.Int32)
}

// Hangs reports whether crontab processes are no longer started under a Patient context.
func Hangs(ctx context.Context) bool { return patience(ctx).Load() == noPatience }

// timeLeft returns how long a process may take, and false if it must not start.
func timeLeft(left *atomic.Int32, timeout time.Duration) (limit time.Duration, ok bool) {
	switch left.Load() {
	case fullPatience:
		return timeout, true
	case littlePatience:
		return timeout / 10, true
	default:
		return 0, false
	}
}

// reducePatience lowers the patience after a timeout of a process. writing is true if the process was to
// write the table.
func reducePatience(left *atomic.Int32, writing bool) {
	if !writing || !left.CompareAndSwap(fullPatience, littlePatience) {
		left.Store(noPatience)
	}
}

// JobPath is the PATH of a job if the table does not set another one.
const JobPath = "/usr/bin:/bin"

// settingLine matches an environment line of a table (crontab(5)).
var settingLine = lazy.NewRegexp(`^[ \t]*("[A-Za-z_]\w*"|'[A-Za-z_]\w*'|[A-Za-z_]\w*)[ \t]*=[ \t]*(.*?)[ \t\r]*$`)

// Environ returns the environment that the table sets for agent's job, as "NAME=value". These
// are the variables set above the agent's line, or in the whole table without such a line. The
// last value of a name counts.
func Environ(table []byte, agent string) []string {
	var env []string
	for line := range bytes.Lines(table) {
		if isOurs(line, agent) {
			break
		}
		m := settingLine.Get().FindSubmatch(bytes.TrimSuffix(line, []byte("\n")))
		if m == nil {
			continue
		}
		name, value := stripQuotes(string(m[1])), stripQuotes(string(m[2]))
		env = slices.DeleteFunc(env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
		env = append(env, name+"="+value)
	}
	return env
}

func stripQuotes(s string) string {
	if n := len(s); n >= 2 && s[0] == s[n-1] && (s[0] == '"' || s[0] == '\'') {
		return s[1 : n-1]
	}
	return s
}
