package simulator

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/state"
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

// These checks hold the rules for rows with a time (docs/design.md, "The alarm line").

// withheldRow is a mail that the server does not hand out, as nextRow names it.
const withheldRow = "a mail that the server does not hand out"

// waits reports whether the message is deferred and waits only for its time.
func waits(s state.State, m state.Message) bool {
	return m.Status == "deferred" && !m.Damaged && m.NextRetryAt.After(s.CooldownUntil) && !waitsForAWord(s, m)
}

// nextRow returns the earliest time after now at which a row is due, and names the row. It ignores
// HALT, the tier and credentials, which may hold a row back. prompts are the configured ones.
func nextRow(s state.State, now time.Time, prompts []ClockPrompt) (at time.Time, what string) {
	take := func(t time.Time, row string) {
		if t.After(now) && (what == "" || t.Before(at)) {
			at, what = t, row
		}
	}
	take(s.AckWaits.Until, "the ack")
	lanes := map[string]bool{}
	for _, e := range s.Outbox {
		if e.Copies >= 5 || e.Unknown && (e.Kind == "ack" || e.Kind == "quiet" || e.Kind == "working") {
			continue
		}
		if lane := fmt.Sprintf("%s %s %s %t", e.Channel, e.To, e.Credential, e.Credential != "" && e.Kind == "relay"); !lanes[lane] {
			lanes[lane] = true
			take(e.NotBefore, e.ID)
		}
	}
	for _, e := range s.HookCalls {
		if lane := "hook " + e.To; !lanes[lane] {
			lanes[lane] = true
			take(e.NotBefore, e.ID)
		}
	}
	for _, uid := range s.Cursor.Owed {
		if f, fails := s.Cursor.Failures[uid]; fails {
			take(f.Next, withheldRow)
		}
	}
	for _, row := range s.Prompts {
		configured := slices.ContainsFunc(prompts, func(c ClockPrompt) bool { return c.Name == row.Name && c.At == row.At })
		switch {
		case !configured || row.Next.IsZero():
		case row.AskedUntil.After(row.Next): // a process may still be asking its program
			take(row.AskedUntil, "the prompt "+row.Name)
		default:
			take(row.Next, "the prompt "+row.Name)
		}
	}
	switch s.Turn.Status {
	case "idle":
		limited := limited(s.Outages, now)
		for _, m := range s.Inbox {
			switch {
			case !limited.IsZero() && m.Operator && !m.Damaged && !limited.Before(m.NextRetryAt) && !strings.HasPrefix(m.Key, "self:") && !strings.HasPrefix(m.Key, "prompt:"):
				take(limited, "the end of a limit")
			case len(s.Outages) == 0 && waits(s, m):
				take(m.NextRetryAt, m.Key)
			}
		}
	case "suspended":
		for _, w := range s.Turn.Waiting {
			if w.Report == "" && w.Missed == "" {
				take(w.By, "the suspended turn")
			}
		}
	}
	return at, what
}

// waitsForAWord reports whether a planned turn must wait for a word of the operator, because the
// agent has used up its own turns. Conversations with others may use half of them.
func waitsForAWord(s state.State, m state.Message) bool {
	usedUp := s.Streak.Turns >= selfTurns || !m.Operator && s.Streak.Peers >= selfTurns/2
	return strings.HasPrefix(m.Key, "self:") && m.TurnID == "" && usedUp
}

// nextTimed returns when a line of ours must fire for a row, if that is known.
func (w *World) nextTimed() (by time.Time, what string) {
	s, ok := w.state()
	if !ok || len(s.Credentials) > 0 || !w.restful.Load() || !w.wellFormed() {
		return time.Time{}, ""
	}
	if ours, _, _ := w.crontab.read(); !slices.Contains(ours, s.Schedule.Installed) {
		return time.Time{}, "" // a process died between the table and the state; the next poll repairs it
	}
	if w.story.Fallback {
		s.Outages = nil // the second backend runs the waiting messages
	}
	now := w.clock.machine()
	at, what := nextRow(s, now, w.settings().prompts)
	if slices.ContainsFunc(s.Inbox, func(m state.Message) bool { return m.NextRetryAt.After(now) && waitsForAWord(s, m) }) {
		w.count.happened("what the agent planned waited for a word")
	}
	if what == "" {
		return time.Time{}, ""
	}
	status, err := w.status()
	if err != nil || status.Halted || status.Tier != "normal" || status.Schedule.Error != nil {
		return time.Time{}, ""
	}
	w.count.happened("a row had a time for the alarm line")
	if what == withheldRow {
		w.count.happened("a withheld mail had a time for the alarm line")
	}
	return at.Add(time.Minute - 1).Truncate(time.Minute), what
}

// wellFormed reports whether our lines in the table are as we write them.
func (w *World) wellFormed() bool {
	ours, _, err := w.crontab.read()
	intervals := 0
	for _, line := range ours {
		if !isAlarm(line) {
			intervals++
			if !strings.HasPrefix(line, "*/30 ") && !strings.HasPrefix(line, "*/1 ") {
				return false
			}
		}
	}
	return err == nil && intervals == 1
}

// checkTimed checks that cron has fired for the row whose time was up, a minute later at
// most.
func (w *World) checkTimed(by time.Time, what string, now time.Time) {
	if what == "" || !now.After(by.Add(time.Minute)) {
		return
	}
	ours, _, _ := w.crontab.read()
	w.violate("alarm", "%s was to be looked at by %s, and cron has not polled: %q", what, by.Format("15:04"), ours)
}

// checkLines checks, after an undisturbed poll, that at most two lines are ours, and that they do
// not fire in the same minute.
func (w *World) checkLines() {
	ours, _, err := w.crontab.read()
	alarms := slices.DeleteFunc(slices.Clone(ours), func(line string) bool { return !isAlarm(line) })
	if err != nil || !w.wellFormed() {
		return
	}
	if len(alarms) > 1 {
		w.violate("alarm", "the crontab has %d alarm lines: %q", len(alarms), ours)
	}
	if len(alarms) != 1 {
		return
	}
	w.count.happened("an alarm line was set")
	var minute int
	idle := slices.ContainsFunc(ours, func(line string) bool { return strings.HasPrefix(line, "*/30 ") })
	if _, err := fmt.Sscanf(alarms[0], "%d ", &minute); err != nil || minute%30 == 0 || !idle {
		w.violate("alarm", "the alarm line is needless: %q", ours)
	}
}

// isAlarm reports whether a line of ours is the alarm line.
func isAlarm(line string) bool { return strings.HasSuffix(line, " alarm") }

// alarmFires reports whether an alarm line fires at this minute.
func alarmFires(line string, at time.Time) bool {
	var minute, day, month int
	var hour string
	if _, err := fmt.Sscanf(line, "%d %s %d %d *", &minute, &hour, &day, &month); err != nil {
		return false
	}
	return at.Minute() == minute && at.Day() == day && int(at.Month()) == month && (hour == "*" || hour == fmt.Sprint(at.Hour()))
}
