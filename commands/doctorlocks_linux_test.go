package commands

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"agentstateloop/commands/config"
	"agentstateloop/cycle"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// The kernel names who holds a lock, and lets nobody be named for one that is
// free.
func TestLockHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), store.CycleLock)
	if _, holds, err := lockHolder("/proc", path); holds || err != nil {
		t.Errorf("of a lock never taken: %v, %v", holds, err)
	}
	lock := flock.New(path)
	if err := lock.Lock(); err != nil {
		t.Fatal(err)
	}
	h, holds, err := lockHolder("/proc", path)
	if err != nil {
		t.Fatal(err)
	}
	if !holds || h.pid != os.Getpid() || h.command == "unknown" || h.stopped {
		t.Errorf("held by %+v, %v; want this process, %d", h, holds, os.Getpid())
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	if _, holds, err := lockHolder("/proc", path); holds || err != nil {
		t.Errorf("of a lock that is free again: %v, %v", holds, err)
	}
}

// layHolder makes a procfs in which process 77 holds a lock.
func layHolder(t *testing.T, lock, command, status string, age time.Duration) (proc string) {
	t.Helper()
	info, err := os.Stat(lock)
	if err != nil {
		t.Fatal(err)
	}
	proc = t.TempDir()
	const up = 10_000 // seconds
	stat := fmt.Sprintf("77 (a b) c) %s 1 77 77 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 %d 0 0", status, int64((up-age.Seconds())*100))
	for name, text := range map[string]string{
		"locks":      fmt.Sprintf("1: POSIX  ADVISORY  WRITE 76 08:01:%d 0 EOF\n2: FLOCK  ADVISORY  WRITE 77 08:01:%[1]d 0 EOF\n2: -> FLOCK  ADVISORY  WRITE 78 08:01:%[1]d 0 EOF\n", info.Sys().(*syscall.Stat_t).Ino),
		"uptime":     fmt.Sprintf("%d.00 1.00\n", up),
		"77/stat":    stat + "\n",
		"77/cmdline": strings.ReplaceAll(command, " ", "\x00") + "\x00",
	} {
		path := filepath.Join(proc, name)
		if err := os.MkdirAll(filepath.Join(filepath.Dir(path), "fd"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(lock, filepath.Join(proc, "77", "fd", "9")); err != nil {
		t.Fatal(err)
	}
	return proc
}

func TestCheckLocks(t *testing.T) {
	const poll, listen = "/bin/agentstateloop --config a.toml poll --if-due", "/bin/agentstateloop listen a.toml"
	for _, tt := range []struct {
		name, lock, command, status string
		age                         time.Duration
		level, want                 string
	}{
		{"a poll at work", store.CycleLock, poll, "S", 20 * time.Second, levelOK, "cycle.lock by process 77"},
		{"a poll that hangs", store.CycleLock, poll, "S", 3 * time.Hour, levelError, "which has run for 3h"},
		{"a runner that delivers", store.CycleLock, poll, "S", 25 * time.Minute, levelOK, "cycle.lock"},
		{"a listener that polls", store.CycleLock, listen, "S", 72 * time.Hour, levelOK, "cycle.lock"},
		{"a commit of a stopped process", "state.lock", poll, "T", time.Second, levelError, "process 77 (" + poll + ")"},
		{"a listener that was stopped", store.CycleLock, listen, "T", time.Hour, levelError, "cycle.lock is held"},
		{"a turn", store.TurnLock, poll, "S", 25 * time.Minute, levelOK, "turn.lock"},
		{"a listener", "listen.lock", listen, "S", 72 * time.Hour, levelOK, "listen.lock"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			lock := filepath.Join(dir, tt.lock)
			if err := os.WriteFile(lock, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			d := &patient{
				program: &program{proc: layHolder(t, lock, tt.command, tt.status, tt.age), loader: testLoader()},
				config:  &config.Config{},
				agent: &cycle.Agent{
					Store: &store.Store{Dir: dir}, Turn: &turn.Config{Timeout: 10 * time.Minute}, Policy: state.Policy{MaxAttempts: 3},
				},
				state: state.New("a", "seed"),
			}
			found := d.checkLocks(t.Context())
			if len(found) != 1 || found[0].Level != tt.level || !strings.Contains(found[0].Text, tt.want) {
				t.Errorf("got %+v; want %s with %q", found, tt.level, tt.want)
			}
			if (found[0].Hint == "") != (tt.level == levelOK) {
				t.Errorf("hint %q", found[0].Hint)
			}
		})
	}
}
