package turn

import (
	"fmt"
	"time"
)

// deadlines hold the times at which a running agent is ended.
type deadlines struct {
	timeout, silence, linger, settle time.Duration // as in Config

	wall       time.Time // the hard end of the attempt
	lastOutput time.Time
	doneAt     time.Time // time of the last Done
}

func newDeadlines(c Config, now time.Time) deadlines {
	return deadlines{timeout: c.Timeout, silence: c.Silence, linger: c.Linger, settle: c.Settle, wall: now.Add(c.Timeout), lastOutput: now}
}

// afterDone returns the deadline of an agent that has reported that it is done.
func (d *deadlines) afterDone() (time.Time, ending) {
	at := d.doneAt.Add(d.linger)
	if d.wall.Before(at) {
		at = d.wall
	}
	return at, ending{ExitIdle, Success, "lingered after it was done"}
}

// settled returns when the answer of a done agent counts, unless the agent resumes work first.
func (d *deadlines) settled() time.Time { return d.doneAt.Add(d.settle) }

// atWork returns the deadline of a working agent. The agent may be silent while one of its tools
// runs.
func (d *deadlines) atWork(inTool bool) (time.Time, ending) {
	if d.silence > 0 && !inTool {
		if quiet := d.lastOutput.Add(d.silence); quiet.Before(d.wall) {
			return quiet, ending{ExitError, TimedOut, fmt.Sprintf("printed nothing for %v", d.silence)}
		}
	}
	return d.wall, ending{ExitError, TimedOut, fmt.Sprintf("ran longer than %v", d.timeout)}
}
