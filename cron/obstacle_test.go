package cron

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"agentstateloop/internal/testkit"
)

// TestSetIDObstacle checks that only a process that cannot gain privileges cannot run a set-id program.
func TestSetIDObstacle(t *testing.T) {
	dir := t.TempDir()
	proc := filepath.Join(dir, "proc")
	program := filepath.Join(dir, "crontab")
	if err := os.MkdirAll(filepath.Join(proc, "self"), 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(path, text string, mode os.FileMode) {
		t.Helper()
		if err := testkit.WriteProgram(path, text); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	table := Table{Command: program}
	for _, tt := range []struct {
		name, status string
		mode         os.FileMode
		want         string
	}{
		{"free", "Name:\tx\nNoNewPrivs:\t0\nSeccomp:\t0\n", 0o755 | os.ModeSetgid, ""},
		{"bound", "Name:\tx\nNoNewPrivs:\t1\nSeccomp:\t0\n", 0o755 | os.ModeSetgid, "NoNewPrivs"},
		{"bound, without a set-id bit", "Name:\tx\nNoNewPrivs:\t1\nSeccomp:\t0\n", 0o755, ""},
		{"not known", "Name:\tx\n", 0o755 | os.ModeSetgid, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			write(program, "#!/bin/sh\n", tt.mode)
			write(filepath.Join(proc, "self", "status"), tt.status, 0o600)
			got := table.Obstacle(proc)
			if os.Geteuid() == 0 {
				tt.want = "" // root needs no set-id bit
			}
			if mountedNosuid(program) && got != "" {
				t.Skip("the temporary folder is mounted nosuid")
			}
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q in it", got, tt.want)
			}
		})
	}
}

// TestRealObstacle runs the real crontab of Debian in a process that the kernel restricts.
func TestRealObstacle(t *testing.T) {
	if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") != "1" {
		t.Skip("needs root and a real crontab: set AGENTSTATELOOP_REQUIRE_REAL=1")
	}
	if os.Getenv("AGENTSTATELOOP_OBSTACLE") != "" {
		os.Stdout.WriteString("obstacle: " + Table{}.Obstacle("/proc") + "\n")
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// All users can run a program in this folder.
	program := filepath.Join("/usr/local/bin", "agentstateloop-"+filepath.Base(t.TempDir()))
	data, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(testkit.WriteProgram(program, string(data)), os.Chmod(program, 0o755)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(program) })
	for flag, want := range map[string]bool{"--reset-env": false, "--no-new-privs": true} {
		cmd := exec.Command("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", flag,
			"env", "AGENTSTATELOOP_REQUIRE_REAL=1", "AGENTSTATELOOP_OBSTACLE=1", program, "-test.run=^TestRealObstacle$")
		cmd.Dir = "/"
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", flag, err, out)
		}
		if got := strings.Contains(string(out), "NoNewPrivs"); got != want {
			t.Errorf("%s: %s", flag, out)
		}
	}
}
