package cron

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

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
