package cron

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMissingProgram(t *testing.T) {
	table, _ := newTable(t, "")
	for _, command := range []string{filepath.Join(t.TempDir(), "crontab"), "no-such-crontab-program"} {
		table.Command = command
		if _, err := table.Read(t.Context()); !errors.Is(err, ErrNoProgram) {
			t.Errorf("%s: %v; want ErrNoProgram", command, err)
		}
	}
}

// TestRunsInCLocale checks that crontab(1) runs in the C locale although ours is another.
func TestRunsInCLocale(t *testing.T) {
	t.Setenv("LC_ALL", "de_DE.UTF-8")
	t.Setenv("LANGUAGE", "de")
	table, _ := newTable(t, `[ "$LC_ALL" = C ] || { echo 'kein crontab' >&2; exit 1; }`)
	if _, err := table.Read(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestKillsHangingCrontab checks that a crontab that hangs is killed after the timeout, with all its
// children.
func TestKillsHangingCrontab(t *testing.T) {
	withTimeout(t, func(timeout time.Duration) bool {
		table, path := newTable(t, `
mkfifo "$dir/never"
( trap '' TERM; echo "$$" >"$dir/leader.new"; mv "$dir/leader.new" "$dir/leader"; cat "$dir/never" ) &
cat "$dir/never"`)
		table.Timeout = timeout
		_, err := table.Read(t.Context())
		wantError(t, err, fmt.Sprintf("timed out after %v", timeout))
		leader := filepath.Join(filepath.Dir(path), "leader")
		if _, err := os.Stat(leader); err != nil {
			return false
		}
		wantGroupEnded(t, leader)
		return true
	})
}

// TestTimeoutsAfterHang checks the timeout of the processes after one that timed out: a tenth after a
// write, and no process after a read.
func TestTimeoutsAfterHang(t *testing.T) {
	for _, c := range []struct {
		name   string
		writes []bool // one for each timeout: it was of a write
		want   time.Duration
		starts bool
	}{
		{"no timeout", nil, 20 * time.Second, true},
		{"a write timed out", []bool{true}, 2 * time.Second, true},
		{"a read timed out", []bool{false}, 0, false},
		{"a write, and a read after it", []bool{true, false}, 0, false},
		{"two writes", []bool{true, true}, 0, false},
	} {
		ctx := Patient(t.Context())
		for _, writing := range c.writes {
			reducePatience(patience(ctx), writing)
		}
		limit, starts := timeLeft(patience(Patient(ctx)), 20*time.Second)
		if limit != c.want || starts != c.starts || Hangs(ctx) == starts {
			t.Errorf("%s: %v, %v; want %v, %v", c.name, limit, starts, c.want, c.starts)
		}
	}
}

// withTimeout calls try with longer and longer timeouts until it returns true: the time that a program
// takes depends on the machine.
func withTimeout(t *testing.T, try func(timeout time.Duration) bool) {
	t.Helper()
	for timeout := 500 * time.Millisecond; !try(timeout); timeout *= 2 {
		if timeout > 20*time.Second {
			t.Fatalf("a timeout of %v is too short", timeout)
		}
	}
}

// TestKillsHangingChild checks that a child that outlives crontab is killed and does not delay us.
func TestKillsHangingChild(t *testing.T) {
	table, path := newTable(t, `
mkfifo "$dir/never"
cat "$dir/never" &
echo "$$" >"$dir/leader"
exit 0`)
	_, err := table.Read(t.Context())
	wantError(t, err, "WaitDelay")
	wantGroupEnded(t, filepath.Join(filepath.Dir(path), "leader"))
}

func wantGroupEnded(t *testing.T, pidFile string) {
	t.Helper()
	text, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	var group int
	if _, err := fmt.Sscan(string(text), &group); err != nil {
		t.Fatal(err)
	}
	// The killed processes are gone as soon as init has reaped them.
	for t.Context().Err() == nil && alive(group) {
	}
}

// alive reports whether the group has a process that is not a zombie.
func alive(group int) bool {
	if syscall.Kill(-group, 0) != nil {
		return false
	}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, stat := range stats {
		text, _ := os.ReadFile(stat)
		_, after, _ := bytes.Cut(text, []byte(") "))
		fields := strings.Fields(string(after))
		if len(fields) > 2 && fields[2] == fmt.Sprint(group) && fields[0] != "Z" {
			return true
		}
	}
	return false
}

func TestContextEnds(t *testing.T) {
	table, _ := newTable(t, `mkfifo "$dir/never"; cat "$dir/never"`)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the cycle is over"))
	if _, err := table.Read(ctx); err == nil || !errors.Is(err, context.Canceled) && !strings.Contains(err.Error(), "the cycle is over") {
		t.Errorf("Read: %v", err)
	}
}

// TestContextEndsWhileWriting checks that crontab finishes a write whose context ends, and that the
// table is then read.
func TestContextEndsWhileWriting(t *testing.T) {
	table, path := newTable(t, `[ "$1" = - ] && cat "$dir/gate"`)
	put(t, path, foreign)
	gate := filepath.Join(filepath.Dir(path), "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	opened := make(chan error, 1)
	go func() {
		file, err := os.OpenFile(gate, os.O_WRONLY, 0) // waits for crontab to read
		cancel()
		if err == nil {
			err = file.Close()
		}
		opened <- err
	}()
	change, err := table.Install(ctx, job("goulard3120"))
	if err != nil || !change.Wrote {
		t.Errorf("Install: %+v, %v", change, err)
	}
	if err := <-opened; err != nil {
		t.Error(err)
	}
	wantFile(t, path, foreign+ours+"\n")
}
