package turn

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"agentstateloop/internal/osfile"
)

const (
	aliveName = "alive"
	pollEvery = 20 * time.Millisecond
)

// Probe reports whether an agent of the attempt in dir lives: it or a descendant holds the lock
// on alive, or the group of the recorded process belongs to the attempt. The Process is zero if
// no process was recorded. An attempt that was never started is not held. If alive is not a
// regular file, it holds no lock.
func Probe(dir string) (held bool, p Process, err error) {
	p, err = readProcess(dir)
	if p.leads(dir) {
		return true, p, nil
	}
	held, lockErr := lockHeld(dir)
	return held, p, errors.Join(lockErr, err)
}

// lockHeld reports whether a process holds the lock on alive.
func lockHeld(dir string) (bool, error) {
	f, err := osfile.Open(filepath.Join(dir, aliveName))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, osfile.ErrKind) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("probe attempt: %w", err)
	}
	defer f.Close()
	// A shared lock, because two probes must not mistake each other for an agent.
	err = flock(f, unix.LOCK_SH|unix.LOCK_NB)
	if err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
		return false, fmt.Errorf("probe attempt: lock %s: %w", f.Name(), err)
	}
	return err != nil, nil
}

// End ends the agent of the attempt in dir after its runner is gone. It sends TERM to the agent's
// process group and descendants, and KILL after grace; zero means DefaultGrace. It returns as
// soon as all of them are gone. A process that still holds the lock after another grace has left
// the family and is abandoned.
//
// End signals only the family of the recorded process, and only if the kernel shows that it
// belongs to the attempt (Process.leads). It leaves a pid alone that another process has reused,
// that was recorded in another boot, or that the agent has forged.
func End(ctx context.Context, dir string, grace time.Duration) (abandoned bool, err error) {
	grace = orDefault(grace, DefaultGrace)
	var family processFamily
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		held, err := signalAndWait(ctx, dir, &family, sig, grace)
		if err != nil || !held {
			return false, err
		}
	}
	return true, nil
}

// Kill is End without grace: it sends KILL at once, whether the runner lives or not.
func Kill(ctx context.Context, dir string) error {
	var family processFamily
	held, err := signalAndWait(ctx, dir, &family, unix.SIGKILL, DefaultGrace)
	if err == nil && held {
		err = errors.New("the agent does not end")
	}
	return err
}

// signalAndWait sends sig to the family as soon as its group is known. It waits until the attempt
// is free or grace is over.
func signalAndWait(ctx context.Context, dir string, family *processFamily, sig unix.Signal, grace time.Duration) (held bool, err error) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	over := time.After(grace)
	sent := false
	for {
		held, p, err := Probe(dir)
		if err != nil {
			return held, err
		}
		if family.group == 0 && held && p.leads(dir) {
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

// lockAlive creates and locks alive for a new agent. The descriptor is read-only, because the
// agent inherits it. If the attempt already has a recorded agent, lockAlive returns an error.
func lockAlive(dir string) (*os.File, error) {
	f, err := osfile.OpenFile(filepath.Join(dir, aliveName), os.O_RDONLY|os.O_CREATE, 0o400)
	if err != nil {
		return nil, fmt.Errorf("lock attempt: %w", err)
	}
	// A concurrent probe holds the lock for microseconds.
	for range 50 {
		if err = flock(f, unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
			break
		}
		time.Sleep(pollEvery)
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrHeld
	}
	if err == nil && hasRecord(dir) {
		err = errors.New("an agent has already been started")
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return f, nil
}

// flock locks the descriptor itself, which a child may inherit. It retries after EINTR.
func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
