package cron

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestEnviron(t *testing.T) {
	const line = "*/30 * * * * x # agentstateloop a\n"
	for _, tt := range []struct {
		name, table string
		want        []string
	}{
		{"none", "", nil},
		{"above our line", "PATH=/opt/bin:/bin\n" + line + "SHELL=/bin/bash\n", []string{"PATH=/opt/bin:/bin"}},
		{"no line yet", "# x\nA = b\n", []string{"A=b"}},
		{"the last wins", "A=1\nB=2\nA=3\n" + line, []string{"B=2", "A=3"}},
		{"quotes and blanks", "  \"A\" = ' b c ' \r\nMAILTO=\"\"\n", []string{"A= b c ", "MAILTO="}},
		{"a job is none", "* * * * * A=b c\n@daily A=b\n#A=b\n" + line, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Environ([]byte(tt.table), "a"); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestDaemon(t *testing.T) {
	for _, tt := range []struct {
		name   string
		argv   map[int]string
		want   string
		hidden bool
	}{
		{name: "none", argv: map[int]string{1: "/sbin/init", 40: "/usr/bin/crontab\x00-e", 41: "sh\x00-c\x00cron"}},
		{name: "Debian", argv: map[int]string{1: "/sbin/init", 33: "/usr/sbin/cron\x00-f"}, want: "cron"},
		{name: "as process 1", argv: map[int]string{1: "crond\x00-n"}, want: "crond"},
		{name: "BusyBox", argv: map[int]string{1: "sh", 7: "/bin/busybox\x00crond\x00-f"}, want: "crond"},
		{name: "with a title", argv: map[int]string{1: "sh", 7: "CRON: running"}, want: "CRON"},
		{name: "a kernel thread has no arguments", argv: map[int]string{1: "sh", 2: ""}},
		{name: "others are hidden", argv: map[int]string{os.Getpid(): "x"}, hidden: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			proc := t.TempDir()
			for pid, argv := range tt.argv {
				dir := filepath.Join(proc, strconv.Itoa(pid))
				if err := os.Mkdir(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				if argv != "" {
					argv += "\x00"
				}
				if err := os.WriteFile(filepath.Join(dir, "cmdline"), []byte(argv), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			name, pid, known := Daemon(proc)
			if tt.hidden {
				if known && pid == 0 {
					t.Error("what is hidden was said to be missing")
				}
				return
			}
			if name != tt.want || !known || (pid != 0) != (tt.want != "") {
				t.Errorf("got %q, pid %d, known %v; want %q", name, pid, known, tt.want)
			}
		})
	}
	if _, _, known := Daemon(filepath.Join(t.TempDir(), "none")); known {
		t.Error("without a procfs it was known")
	}
}

// A set-id program is of no use to a process that may gain no privileges, and
// nothing else is in its way.
func TestObstacle(t *testing.T) {
	dir := t.TempDir()
	proc := filepath.Join(dir, "proc")
	program := filepath.Join(dir, "crontab")
	if err := os.MkdirAll(filepath.Join(proc, "self"), 0o700); err != nil {
		t.Fatal(err)
	}
	write := func(path, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
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
		{"bound, and needs nothing", "Name:\tx\nNoNewPrivs:\t1\nSeccomp:\t0\n", 0o755, ""},
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

// The same with Debian's crontab and a kernel that means it.
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
	// A place from which anybody can run it.
	program := filepath.Join("/usr/local/bin", "agentstateloop-"+filepath.Base(t.TempDir()))
	data, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, data, 0o755); err != nil {
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
