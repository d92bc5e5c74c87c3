package cron

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

func TestFindsCronDaemon(t *testing.T) {
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
					t.Error("a hidden daemon was reported as missing")
				}
				return
			}
			if name != tt.want || !known || (pid != 0) != (tt.want != "") {
				t.Errorf("got %q, pid %d, known %v; want %q", name, pid, known, tt.want)
			}
		})
	}
	if _, _, known := Daemon(filepath.Join(t.TempDir(), "none")); known {
		t.Error("known is set without procfs")
	}
}
