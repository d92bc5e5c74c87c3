package cron

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

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
