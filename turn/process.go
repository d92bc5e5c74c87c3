package turn

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// cancelSignal asks our own process that speaks with an agent (ACPCommand) to end its
// turn in order. It goes to all processes of the agent, and every other one ignores it
// by default. No terminal sends it, because an agent has none.
const cancelSignal = unix.SIGWINCH

const (
	// drainFor is how long a pipe that a grandchild keeps open is read after
	// the agent itself has ended. drainMost is the bound while events that were
	// read still wait to be applied.
	drainFor  = time.Second
	drainMost = 10 * time.Second
)

// process is the agent's program, started, and how far its end has come. Its
// pipes are plain files of ours, because the Wait of os/exec's own pipes waits
// for every grandchild that keeps them open.
type process struct {
	pid            int // also the number of its group
	stdout, stderr *os.File
	exited         chan struct{}
	state          *os.ProcessState // set before exited is closed
	grace          time.Duration
	handshake      handshake

	exitedAt  time.Time // zero while the agent itself runs
	cancelled time.Time // when cancelSignal was sent
	termedAt  time.Time // when TERM was sent
	killedAt  time.Time // when KILL was sent
	drained   bool      // both pipes came to their end
	abandoned bool      // something outlived KILL, or left the group with the pipes

	family processFamily
	looked time.Time // when the family was last looked up
	lives  bool      // whether any of it lived then
}

// runs reports whether the agent itself has not ended yet.
func (p *process) runs() bool { return p.exitedAt.IsZero() }

// nextCheck returns when the process must be looked at again. ok is false while
// nothing has begun to end it.
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

// signal sends sig to the family. Once the leader is reaped, the group's number
// is ours only while the group lives.
func (p *process) signal(sig unix.Signal) {
	if lives := p.family.refresh(); lives || p.runs() {
		_ = p.family.signal(sig) // what cannot be signalled outlives its grace and is reported then
	}
}

// settled reports whether no more output is worth waiting for. pending means
// that events were read and not applied yet.
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

// familyLives reports whether any of the family lives. It looks at most every
// pollEvery: a survivor that prints without end must not keep us busy with it.
func (p *process) familyLives(now time.Time) bool {
	if !now.Before(p.looked.Add(pollEvery)) {
		p.looked, p.lives = now, p.family.refresh()
	}
	return p.lives
}

// over reports whether nothing is left to wait for, and sets abandoned.
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
