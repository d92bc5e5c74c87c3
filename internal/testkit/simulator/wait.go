package simulator

import (
	"fmt"
	"time"

	"agentstateloop/cycle"
)

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
			w.rested(false) // it may sleep through the minute of an alarm line
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
