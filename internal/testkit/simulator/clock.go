package simulator

import (
	"fmt"
	"sync"
	"time"

	"agentstateloop/cycle"
)

// clock is the time in a world. The servers have the true time. The clock of the
// agent's machine may be wrong.
type clock struct {
	mu sync.Mutex
	clockFace
}

// clockFace is the state of a clock.
type clockFace struct {
	true time.Time
	skew time.Duration // of the machine
	back bool          // it was set back at least once
	off  bool          // it was ever wrong
}

func (c *clock) read() clockFace {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clockFace
}

// servers returns the time of the mail servers and the mesh.
func (c *clock) servers() time.Time { return c.read().true }

// machine returns the time that the agent and cron see.
func (c *clock) machine() time.Time { r := c.read(); return r.true.Add(r.skew) }

func (c *clock) skewed() time.Duration { return c.read().skew }

// daysOff reports whether the machine's clock is so wrong that a search for "mail
// since the day before" finds the wrong day.
func (c *clock) daysOff() bool { return c.skewed().Abs() > 12*time.Hour }

// wasSetBack reports whether the machine's clock was ever set back. That changes
// the recorded begin of an outage.
func (c *clock) wasSetBack() bool { return c.read().back }

// wasWrong reports whether the machine's clock ever jumped. Then moments that were computed before
// have moved.
func (c *clock) wasWrong() bool { return c.read().off }

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.true = c.true.Add(d)
}

func (c *clock) jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skew += d
	c.back, c.off = c.back || d < 0, true
}

// settle corrects the machine's clock.
func (c *clock) settle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.back = c.back || c.skew > 0
	c.skew = 0
}

// maxFired is how often cron fires during one wait. The machine sleeps through the
// rest.
const maxFired = 6

// wait lets time pass. cron starts a poll at every minute at which the installed
// line fires. The faults of the step strike the first poll.
func (w *World) wait(s Step) error {
	faults, fired := s.Faults, 0
	by, what := w.nextTimed()
	for left := s.For; left > 0; {
		now := w.clock.machine()
		next := now.Truncate(time.Minute).Add(time.Minute)
		d := min(next.Sub(now), left)
		w.clock.pass(d)
		left -= d
		if !w.clock.machine().Equal(next) {
			continue
		}
		if fired >= maxFired {
			w.restful.Store(false) // it may sleep through the minute of an alarm line
			continue
		}
		if !w.fires(next) {
			w.checkTimed(by, what, next)
			continue
		}
		fired++
		if _, err := w.poll(faults, cycle.PollOptions{IfDue: true}); err != nil {
			w.logf("  = poll: %v", err)
		}
		faults = nil
		w.powerOn()
		w.passOutages()
		w.sweep()
		if w.over() {
			return nil
		}
		by, what = w.nextTimed()
	}
	return nil
}

// fires reports whether a line of ours in the crontab fires at this minute.
func (w *World) fires(at time.Time) bool {
	ours, _, err := w.crontab.read()
	if err != nil {
		return false
	}
	for _, line := range ours {
		if isAlarm(line) && alarmFires(line, at) {
			w.count.happened("an alarm line fired")
			return true
		}
		var every int
		if _, err := fmt.Sscanf(line, "*/%d * * * *", &every); err == nil && every > 0 && at.Minute()%every == 0 {
			return true
		}
	}
	return false
}
