package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const (
	aliveName = "alive"
	pollEvery = 20 * time.Millisecond
)

// Process is an agent's process as it wrote itself into alive before it became
// the agent. It leads a process group of the same number.
type Process struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // distinguishes it from a later process with this pid
	Boot  string `json:"boot"`  // the boot of the kernel in which PID is valid

	// Error is why the process could not become the agent.
	Error string `json:"error,omitempty"`
}

// lives reports whether this very process still runs.
func (p Process) lives() bool {
	if p.PID <= 1 {
		return false
	}
	boot, err := bootID()
	if err != nil || boot != p.Boot {
		return false
	}
	return proc{pid: p.PID, start: p.Start}.lives()
}

// Probe reports whether an agent of the attempt in dir lives: it or a descendant
// holds the lock on alive, or the recorded process itself still runs. The Process
// is zero if none was recorded. An attempt that was never started is not held.
func Probe(dir string) (held bool, p Process, err error) {
	f, err := os.OpenFile(filepath.Join(dir, aliveName), os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, os.ErrNotExist) {
		return false, Process{}, nil
	}
	if err != nil {
		return false, Process{}, fmt.Errorf("probe attempt: %w", err)
	}
	defer f.Close()

	// A shared lock, because two probes must not take each other for an agent.
	err = flock(f, unix.LOCK_SH|unix.LOCK_NB)
	if err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
		return false, Process{}, fmt.Errorf("probe attempt: lock %s: %w", f.Name(), err)
	}
	p, readErr := readProcess(f)
	return err != nil || p.lives(), p, readErr
}

// readProcess reads the record in alive. An empty file is a zero Process: the
// child has not written yet.
func readProcess(f *os.File) (Process, error) {
	var p Process
	b, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil {
		return p, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	// The agent has the descriptor and may write anything. A record that cannot
	// be read names no process, so no process is signalled.
	if json.Unmarshal(b, &p) != nil {
		return Process{}, nil
	}
	return p, nil
}

// End ends the agent of the attempt in dir whose runner is gone. It sends TERM to
// the agent's process group and descendants, and KILL after grace; zero means
// DefaultGrace. It returns as soon as none of them lives. A process that still
// holds the lock after another grace has left the family and is abandoned. Only
// the family of the recorded process is signalled: a pid that another process has
// got since, or that was recorded in another boot, is left alone.
func End(ctx context.Context, dir string, grace time.Duration) (abandoned bool, err error) {
	grace = orDefault(grace, DefaultGrace)
	var family processFamily
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		held, err := endWith(ctx, dir, &family, sig, grace)
		if err != nil || !held {
			return false, err
		}
	}
	return true, nil
}

// endWith sends sig to the family as soon as its group is known. It waits until
// the attempt is free or the grace is over.
func endWith(ctx context.Context, dir string, family *processFamily, sig unix.Signal, grace time.Duration) (held bool, err error) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	over := time.After(grace)
	sent := false
	for {
		held, p, err := Probe(dir)
		if err != nil {
			return held, err
		}
		if family.group == 0 && held && groupIsOurs(p, dir) {
			family.group = p.PID
		}
		if family.group != 0 {
			held = family.refresh() || held
		}
		if !held {
			return false, nil
		}
		if !sent && family.group != 0 {
			sent = true
			if err := family.signal(sig); err != nil {
				return held, fmt.Errorf("end agent: signal group %d: %w", p.PID, err)
			}
		}
		select {
		case <-ctx.Done():
			return held, context.Cause(ctx)
		case <-over:
			return held, nil
		case <-tick.C:
		}
	}
}

// groupIsOurs reports whether the group that p led is still the agent's.
func groupIsOurs(p Process, dir string) bool {
	if p.lives() {
		return true
	}
	boot, err := bootID()
	return p.PID > 1 && err == nil && boot == p.Boot && groupHolds(p.PID, filepath.Join(dir, aliveName))
}

// lockAlive creates and locks alive for a new agent. A file in which an agent was
// recorded before is an error.
func lockAlive(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, aliveName), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock attempt: %w", err)
	}
	// A process that probes at this instant holds it for microseconds.
	for range 50 {
		if err = flock(f, unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
			break
		}
		time.Sleep(pollEvery)
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrHeld
	}
	if err == nil {
		var info os.FileInfo
		if info, err = f.Stat(); err == nil && info.Size() > 0 {
			err = errors.New("the attempt was started already")
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return f, nil
}

// flock locks the descriptor itself, which a child may inherit.
func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
