package turn

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"agentstateloop/internal/osfile"

	"golang.org/x/sys/unix"
)

// cancelSignal asks our own process that speaks with an agent (ACPCommand) to end its turn
// cleanly. It goes to all processes of the agent; all others ignore it by default. A terminal
// would send it, too, but an agent has no terminal.
const cancelSignal = unix.SIGWINCH

const (
	// drainTimeout is how long we read a pipe that a grandchild keeps open after the agent itself
	// has ended. maxDrainTimeout is the limit while events wait to be applied.
	drainTimeout    = time.Second
	maxDrainTimeout = 10 * time.Second
)

// process is the running program of the agent and the progress of its end. Its pipes are plain
// files of ours, because Wait on os/exec's own pipes waits for every grandchild that keeps them
// open.
type process struct {
	pid            int // also its process group
	stdout, stderr *os.File
	exited         chan struct{}
	state          *os.ProcessState // set before exited is closed
	grace          time.Duration
	handshake      handshake

	exitedAt  time.Time // zero while the agent itself runs
	cancelled time.Time // when cancelSignal was sent
	termedAt  time.Time // when TERM was sent
	killedAt  time.Time // when KILL was sent
	drained   bool      // both pipes reached EOF
	abandoned bool      // a process outlived KILL, or left the group with the pipes

	family    processFamily
	lastCheck time.Time // when familyLives last looked
	alive     bool      // whether any of the family lived then
}

// isRunning reports whether the agent itself still runs.
func (p *process) isRunning() bool { return p.exitedAt.IsZero() }

// nextCheck returns when to check the process again. ok is false while the agent runs and we have
// not started to end it.
func (p *process) nextCheck(now time.Time) (at time.Time, ok bool) {
	switch {
	case !p.isRunning():
		return now.Add(pollEvery), true
	case !p.killedAt.IsZero():
		return p.killedAt.Add(p.grace), true
	case !p.termedAt.IsZero():
		return p.termedAt.Add(p.grace), true
	case !p.cancelled.IsZero():
		return p.cancelled.Add(p.grace), true
	}
	return time.Time{}, false
}

// signal sends sig to the family. After the leader is reaped, the group's number is ours only
// while the group lives.
func (p *process) signal(sig unix.Signal) {
	if lives := p.family.refresh(); lives || p.isRunning() {
		_ = p.family.signal(sig) // a process that cannot be signalled is reported after its grace
	}
}

// settled reports whether we can stop waiting for output. pending means that events were read but
// not applied yet.
func (p *process) settled(now time.Time, pending bool) bool {
	if p.isRunning() {
		return false
	}
	if p.drained {
		return true
	}
	wait := drainTimeout
	if pending {
		wait = maxDrainTimeout
	}
	return !now.Before(p.exitedAt.Add(wait))
}

// familyLives reports whether any of the family lives. It looks at most every pollEvery, so that
// a survivor that prints endlessly does not keep us busy.
func (p *process) familyLives(now time.Time) bool {
	if !now.Before(p.lastCheck.Add(pollEvery)) {
		p.lastCheck, p.alive = now, p.family.refresh()
	}
	return p.alive
}

// over reports whether we can stop waiting for the family, and sets abandoned.
func (p *process) over(now time.Time, pending bool) bool {
	if !p.killedAt.IsZero() && !now.Before(p.killedAt.Add(p.grace)) {
		p.abandoned = true
		return true
	}
	if !p.settled(now, pending) || p.familyLives(now) {
		return false
	}
	p.abandoned = !p.drained
	return true
}

// closePipes closes our ends of the pipes, even if other processes still hold
// theirs.
func (p *process) closePipes() {
	p.stdout.Close()
	p.stderr.Close()
}

// proc is one living process. start distinguishes it from a later process with
// the same pid.
type proc struct {
	pid, parent, group int
	start              string
}

// lives reports whether this same process still runs.
func (p proc) lives() bool {
	now, err := lookUp(p.pid)
	return err == nil && now.start == p.start
}

// processFamily is an agent's process group, and those of its descendants that made their own
// groups, as claude and gemini do for the commands of their tools. A signal to the group alone
// would leave those running. A process whose parent ended before we began to end the agent has
// left the family: it is a daemon.
type processFamily struct {
	group        int
	outsideGroup []proc // outside the group, as of the last refresh
}

// refresh finds the descendants of the known members and of the leader, and reports whether any
// of the family still lives.
func (f *processFamily) refresh() (lives bool) {
	all := processes()
	children := make(map[int][]proc)
	family := slices.DeleteFunc(slices.Clone(f.outsideGroup), func(p proc) bool { return !slices.ContainsFunc(all, p.same) })
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
		if p.group == f.group {
			family = append(family, p)
		}
	}
	for i := 0; i < len(family); i++ {
		for _, child := range children[family[i].pid] {
			if !slices.ContainsFunc(family, child.same) {
				family = append(family, child)
			}
		}
	}
	f.outsideGroup = slices.DeleteFunc(slices.Clone(family), func(p proc) bool { return p.group == f.group })
	return len(family) > 0
}

// same reports whether both are the same process, even if its parent or group has changed.
func (p proc) same(other proc) bool { return p.pid == other.pid && p.start == other.start }

// signal sends sig to every process that refresh found. A process that has ended is not an error.
func (f *processFamily) signal(sig unix.Signal) error {
	err := unix.Kill(-f.group, sig)
	for _, p := range f.outsideGroup {
		if p.lives() {
			_ = unix.Kill(p.pid, sig)
		}
	}
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// recordName is the file in which the runner records the agent's process. The agent never
// receives a descriptor of it: through /proc the agent could reopen even a read-only descriptor
// for writing.
const recordName = "process"

// maxRecord bounds how much of a record is read, in bytes.
const maxRecord = 64 << 10

// Process is the runner's record of the agent's process, made before the process became the
// agent. The process leads a process group of the same number.
type Process struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // distinguishes it from a later process with this pid
	Boot  string `json:"boot"`  // the kernel's boot id; PID is valid only in this boot
}

// recordProcess records the process with this pid, once per attempt. The record need not survive
// a power loss, because the process does not survive it either.
func recordProcess(dir string, pid int) error {
	boot, err := bootID()
	if err != nil {
		return fmt.Errorf("record agent: read boot id: %w", err)
	}
	p, err := lookUp(pid)
	if err != nil {
		return fmt.Errorf("record agent: read start time: %w", err)
	}
	b, err := json.Marshal(Process{PID: pid, Start: p.start, Boot: boot})
	if err != nil {
		return fmt.Errorf("record agent: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, recordName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("record agent: %w", err)
	}
	_, err = f.Write(append(b, '\n'))
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("record agent: %w", err)
	}
	return nil
}

// hasRecord reports whether an agent of the attempt in dir was recorded.
func hasRecord(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, recordName))
	return err == nil
}

// readProcess reads the record of the attempt in dir. If the record is missing, the Process is
// zero: the agent has not begun. Up to version 1 of the attempt's folder, the record was in
// alive. An unparsable record yields the zero Process, because an agent without a sandbox can
// write anything there.
func readProcess(dir string) (Process, error) {
	f, err := osfile.Open(filepath.Join(dir, recordName))
	if errors.Is(err, fs.ErrNotExist) {
		f, err = osfile.Open(filepath.Join(dir, aliveName))
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, osfile.ErrKind) {
		return Process{}, nil
	}
	if err != nil {
		return Process{}, fmt.Errorf("probe attempt: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxRecord))
	if err != nil {
		return Process{}, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	var p Process
	if json.Unmarshal(b, &p) != nil {
		return Process{}, nil
	}
	return p, nil
}

// leads reports whether the recorded process leads, or led until it ended, a living process group
// of the attempt in dir. The record alone proves nothing: an agent with write access to the folder
// could name any process. So the kernel must show that one process of the group was started for
// this attempt (belongsTo). The kernel does not reuse the number of a group while the group lives.
func (p Process) leads(dir string) bool {
	if p.PID <= 1 || p.PID == unix.Getpgrp() {
		return false
	}
	if boot, err := bootID(); err != nil || boot != p.Boot {
		return false
	}
	if now, err := lookUp(p.PID); err == nil && now.start != p.Start {
		return false
	}
	for _, member := range processes() {
		if member.group == p.PID && member.belongsTo(dir) {
			return true
		}
	}
	return false
}
