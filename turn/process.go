package turn

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// cancelSignal asks our own process that speaks with an agent (ACPCommand) to end its turn
// cleanly. It goes to all processes of the agent; all others ignore it by default. A terminal
// would send it, too, but an agent has no terminal.
const cancelSignal = unix.SIGWINCH

const (
	// drainFor is how long we read a pipe that a grandchild keeps open after the agent itself has
	// ended. drainMost is the limit while events wait to be applied.
	drainFor  = time.Second
	drainMost = 10 * time.Second
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

	family processFamily
	looked time.Time // when familyLives last looked
	lives  bool      // whether any of the family lived then
}

// runs reports whether the agent itself still runs.
func (p *process) runs() bool { return p.exitedAt.IsZero() }

// nextCheck returns when to check the process again. ok is false while the agent runs and we have
// not started to end it.
func (p *process) nextCheck(now time.Time) (at time.Time, ok bool) {
	switch {
	case !p.runs():
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
	if lives := p.family.refresh(); lives || p.runs() {
		_ = p.family.signal(sig) // a process that cannot be signalled is reported after its grace
	}
}

// settled reports whether we can stop waiting for output. pending means that events were read but
// not applied yet.
func (p *process) settled(now time.Time, pending bool) bool {
	if p.runs() {
		return false
	}
	if p.drained {
		return true
	}
	wait := drainFor
	if pending {
		wait = drainMost
	}
	return !now.Before(p.exitedAt.Add(wait))
}

// familyLives reports whether any of the family lives. It looks at most every pollEvery, so that
// a survivor that prints endlessly does not keep us busy.
func (p *process) familyLives(now time.Time) bool {
	if !now.Before(p.looked.Add(pollEvery)) {
		p.looked, p.lives = now, p.family.refresh()
	}
	return p.lives
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
