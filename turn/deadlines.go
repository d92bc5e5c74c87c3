package turn

import (
	"fmt"
	"time"
)

// deadlines are the times at which a running agent is ended.
type deadlines struct {
	timeout, silence, linger, settle time.Duration // as in Config

	wall       time.Time // the end of the attempt, whatever the agent does
	lastOutput time.Time
	doneAt     time.Time // when the last Done came
}

func newDeadlines(c Config, now time.Time) deadlines {
	return deadlines{timeout: c.Timeout, silence: c.Silence, linger: c.Linger, settle: c.Settle, wall: now.Add(c.Timeout), lastOutput: now}
}

// afterDone returns the deadline of an agent that reported that it is done.
func (d *deadlines) afterDone() (time.Time, ending) {
	at := d.doneAt.Add(d.linger)
	if d.wall.Before(at) {
		at = d.wall
	}
	return at, ending{ExitIdle, Success, "lingered after it was done"}
}

// settled returns when the answer of an agent that reported that it is done counts,
// if it does not go to work again before.
func (d *deadlines) settled() time.Time { return d.doneAt.Add(d.settle) }

// atWork returns the deadline of an agent at work. While one of its tools runs
// it may be silent.
func (d *deadlines) atWork(inTool bool) (time.Time, ending) {
	if d.silence > 0 && !inTool {
		if quiet := d.lastOutput.Add(d.silence); quiet.Before(d.wall) {
			return quiet, ending{ExitError, TimedOut, fmt.Sprintf("printed nothing for %v", d.silence)}
		}
	}
	return d.wall, ending{ExitError, TimedOut, fmt.Sprintf("ran longer than %v", d.timeout)}
}
