package cycle

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"agentstateloop/cron"
	"agentstateloop/cycle/view"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// verifyEvery is how often the installed crontab line is read while the state still asks for
// the last verified line (docs/design.md, "The crontab line is a projection").
const verifyEvery = 30 * time.Minute

// crontab keeps the agent's lines in the user's table.
type crontab struct {
	core
	config   string
	schedule Schedule
}

// Job returns the crontab lines that the state asks for.
func (a *Agent) Job(s state.State) cron.Job { return a.crontab().job(s) }

// job is Job.
func (c *crontab) job(s state.State) cron.Job {
	job := cron.Job{Agent: c.handle, Binary: c.binary(s), Config: c.config, Interval: s.Interval(*c.policy), Args: c.lingerArgs(s)}
	if c.schedule.EveryMinute {
		job.Interval = time.Minute
		return job
	}
	if at, ok := s.NextAlarm(*c.policy, c.now()); ok {
		job.Alarm = at.In(cmp.Or(c.policy.Location, time.UTC))
	}
	return job
}

// binary returns the program that polls: the one that was installed first, while that exists. So
// trying out another build does not move the agent to it.
func (c *crontab) binary(s state.State) string {
	if pinned := s.Schedule.Binary; pinned != "" {
		if _, err := os.Stat(pinned); err == nil {
			return pinned
		}
	}
	return c.schedule.Binary
}

// lingerArgs returns the arguments that make a poll of an engaged agent stay on, or nil.
func (c *crontab) lingerArgs(s state.State) []string {
	if c.schedule.Linger > 0 && s.Phase.Engaged() && !s.Halted() {
		return []string{"--linger", c.schedule.Linger.String()}
	}
	return nil
}

// project installs the line of the interval that the state asks for, and the alarm line with
// it. It does nothing if that line was verified less than verifyEvery ago, so a steady poll
// starts no crontab process. It leaves a change of the alarm line alone to reschedule.
func (c *crontab) project(ctx context.Context, s state.State) []state.Event {
	if c.schedule.Mode != ModeCrontab || s.Schedule.Removed {
		return nil
	}
	job := c.job(s)
	line, err := job.Line()
	fresh := c.now().Sub(s.Schedule.Verified) < verifyEvery
	if err == nil && line == s.Schedule.Installed && s.Schedule.Error == "" && fresh {
		return nil
	}
	return c.install(ctx, s, job)
}

// reschedule installs the lines that the state asks for if they have changed. It is called when
// a cycle has done all due work, so that a failed effect has the time of its next try.
func (c *crontab) reschedule(ctx context.Context, s state.State) []state.Event {
	if !c.misplaced(s) {
		return nil
	}
	return c.install(ctx, s, c.job(s))
}

// install installs the lines of job, in one write of the table.
func (c *crontab) install(ctx context.Context, s state.State, job cron.Job) []state.Event {
	line, alarm, err := job.Lines()
	if err != nil {
		return c.notInstalled(s, s.Schedule.Installed, s.Schedule.AlarmLine, err)
	}
	if cron.Hangs(ctx) {
		return nil // this poll has seen crontab hang
	}
	if _, err := c.schedule.Table.Install(ctx, job); err != nil {
		line, alarm := c.installed(ctx, s)
		return c.notInstalled(s, line, alarm, err)
	}
	// An `uninstall` that came meanwhile may have removed the line before we
	// wrote it.
	if now, err := c.store.Read(); err == nil && now.Schedule.Removed {
		if _, err := c.schedule.Table.Remove(ctx, c.handle); err != nil {
			return c.notInstalled(s, line, alarm, err)
		}
		return nil
	}
	return []state.Event{state.Scheduled{Line: line, AlarmLine: alarm, Alarm: job.Alarm.UTC(), Binary: job.Binary}}
}

// notInstalled returns the event for lines that could not be installed.
func (c *crontab) notInstalled(s state.State, line, alarm string, err error) []state.Event {
	e := state.Scheduled{Line: line, AlarmLine: alarm, Binary: s.Schedule.Binary, Reason: err.Error()}
	if alarm == s.Schedule.AlarmLine {
		e.Alarm = s.Schedule.Alarm
	}
	return []state.Event{e}
}

// installed returns the lines that are in the table now, or "" if the table cannot be
// read. If crontab hangs, it returns the lines that were installed last.
func (c *crontab) installed(ctx context.Context, s state.State) (line, alarm string) {
	table, err := c.schedule.Table.Read(ctx)
	if errors.Is(err, cron.ErrHangs) {
		return s.Schedule.Installed, s.Schedule.AlarmLine
	}
	if err != nil {
		return "", ""
	}
	return firstLine(cron.Find(table, c.handle)), firstLine(cron.FindAlarm(table, c.handle))
}

// firstLine returns the first of lines, or "".
func firstLine(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return lines[0]
}

// misplaced reports whether the installed lines differ from those that the state asks for,
// although the table can be written. The phase has changed since, or a row with a time has come
// or gone.
func (c *crontab) misplaced(s state.State) bool {
	if c.schedule.Mode != ModeCrontab || s.Schedule.Removed || s.Schedule.Error != "" {
		return false
	}
	line, alarm, err := c.job(s).Lines()
	return err == nil && (line != s.Schedule.Installed || alarm != s.Schedule.AlarmLine)
}

// status compares the installed lines with those that the state asks for.
func (c *crontab) status(s state.State) view.StatusSchedule {
	st := view.StatusSchedule{
		Error:     view.OrNull(s.Schedule.Error),
		Installed: view.OrNull(timeFields(s.Schedule.Installed)), AlarmInstalled: view.OrNull(timeFields(s.Schedule.AlarmLine)),
	}
	if at, ok := s.NextAlarm(*c.policy, c.now()); ok {
		st.Alarm, st.AlarmReason = &at, view.OrNull(s.Due(*c.policy, at))
	}
	if c.schedule.Mode != ModeCrontab || s.Schedule.Removed {
		return st
	}
	line, alarm, err := c.job(s).Lines()
	if err != nil {
		st.Error = view.OrNull(err.Error())
		return st
	}
	st.Wanted, st.AlarmWanted = view.OrNull(timeFields(line)), view.OrNull(timeFields(alarm))
	return st
}

// timeFields returns the five time fields of a crontab line.
func timeFields(line string) string {
	f := strings.Fields(line)
	if len(f) < 5 {
		return ""
	}
	return strings.Join(f[:5], " ")
}

// Install makes the agent manage what polls it, also after an `uninstall`: its crontab lines as
// the state asks for, or its timer. The other of the two is removed when this one is installed,
// so that the agent is polled at all times. If Install fails, Schedule.Error of the returned
// state has the reason. If a cycle is under way, that cycle installs the lines. Install also ends
// a removal that was interrupted: the user wants the agent.
func (a *Agent) Install(ctx context.Context) (state.State, error) {
	if err := a.Store.UnmarkRemoval(); err != nil {
		return state.State{}, err
	}
	if a.core().standsBy() {
		return a.timers().installStandby(ctx)
	}
	s, err := a.journal().commit(ctx, state.Unscheduled{Removed: false})
	if err != nil {
		return s, err
	}
	now, err := a.Reinstall(ctx)
	if errors.Is(err, ErrBusy) {
		return s, nil
	}
	if err != nil || a.Schedule.HasTimer() || now.Schedule.Error != "" {
		return now, err
	}
	_, err = a.Timer(now).Remove(ctx)
	return now, err
}

// Reinstall reads the table and installs the lines that the state asks for, or the timer, as
// Install does, but leaves both alone after an `uninstall`. The error is ErrBusy if a cycle is
// under way, which installs the lines itself.
func (a *Agent) Reinstall(ctx context.Context) (state.State, error) {
	if a.core().standsBy() {
		return a.timers().installStandby(ctx)
	}
	var s state.State
	if a.Schedule.HasTimer() {
		s, err := a.Store.Read()
		if err != nil || s.Schedule.Removed {
			return s, err
		}
		return a.timers().install(ctx, s)
	}
	held, err := withLock(a.Store, store.CycleLock, func() (err error) {
		if s, err = a.Store.Read(); err != nil {
			return err
		}
		s.Schedule.Verified = time.Time{} // the user asks: read the table
		if events := a.crontab().project(ctx, s); len(events) > 0 {
			s, err = a.journal().commit(ctx, events...)
		}
		if ctx.Err() != nil {
			return ErrInterrupted
		}
		return err
	})
	if err == nil && !held {
		err = ErrBusy
	}
	return s, err
}

// standsBy reports whether another host acts for the agent, as far as is known here.
func (c core) standsBy() bool { return c.seat != nil && c.seat.Here() != nil }

// installStandby installs what polls a standby. It records nothing: the state is that of the host
// that acts. The returned state has only the schedule.
func (u *timers) installStandby(ctx context.Context) (s state.State, err error) {
	if u.schedule.HasTimer() {
		t := u.timer(s)
		if err = t.Write(); err == nil {
			err = t.Enable(ctx)
		}
		if err == nil {
			_, err = u.removeLines(ctx, false)
		}
		s.Schedule.Installed = t.Name()
	} else {
		job := u.crontab.job(s)
		if _, err = u.schedule.Table.Install(ctx, job); err == nil {
			_, err = u.timer(s).Remove(ctx)
		}
		s.Schedule.Installed, _ = job.Line()
	}
	if ctx.Err() != nil {
		return s, ErrInterrupted
	}
	return s, err
}

// Uninstall removes what polls the agent, its crontab lines and the units of its timer, and
// records that they must stay away: cycles leave the table alone until `init` or `transition`. It
// returns the change of the table, and the removed units.
func (a *Agent) Uninstall(ctx context.Context) (cron.Change, []string, error) {
	s, err := a.Store.Read()
	if err != nil {
		return cron.Change{}, nil, err
	}
	if a.core().standsBy() { // its polls leave the table alone
		return a.timers().stopPolls(ctx, state.State{}, a.Schedule.Mode == ModeCrontab)
	}
	if _, err := a.journal().commit(ctx, state.Unscheduled{Removed: true}); err != nil {
		return cron.Change{}, nil, err
	}
	return a.timers().stopPolls(ctx, s, a.Schedule.Mode == ModeCrontab)
}

// pollWhileStuck stays on after a poll while the crontab lines are stuck: the agent is engaged,
// or a row is due before the next poll, but the table cannot be written. Cron would then come
// back only at the idle interval. Holding linger.lock, this process polls at each minute at
// which the wanted lines would fire. It ends when the phase is IDLE and no row needs it, or
// when the table can be written (docs/protocol.md, "The crontab").
func (p *poller) pollWhileStuck(ctx context.Context) error {
	s, err := p.store.Read()
	if err != nil || !p.crontab.stuck(s) {
		return err
	}
	lock, err := p.store.TryLock(store.LingerLock)
	if err != nil || lock == nil {
		return err
	}
	defer lock.Unlock()
	p.logf("staying: %s", s.Schedule.Error)
	for p.crontab.stuck(s) {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(0, p.crontab.nextMinute(s).Sub(p.now()))):
		}
		if _, err := p.poll(ctx, PollOptions{IfDue: true, LeaveLarge: true}); err != nil && !errors.Is(err, ErrBusy) {
			return err
		}
		if s, err = p.store.Read(); err != nil {
			return err
		}
		if !s.NextDue.After(p.now()) {
			return nil // another process's poll hangs; cron comes back
		}
	}
	return nil
}

// stuck reports whether cron would come back too late: at the idle interval for an engaged
// agent, or without an alarm line that is needed.
func (c *crontab) stuck(s state.State) bool {
	if c.schedule.Mode != ModeCrontab || s.Schedule.Removed || s.Schedule.Error == "" {
		return false
	}
	return s.Interval(*c.policy) != c.policy.IdleInterval && !c.stuckAsWanted(s) || c.alarmIsMissing(s)
}

// alarmIsMissing reports whether the state asks for an alarm line that is not in the
// table.
func (c *crontab) alarmIsMissing(s state.State) bool {
	alarm, err := c.job(s).AlarmLine()
	return err == nil && alarm != "" && alarm != s.Schedule.AlarmLine
}

// nextMinute returns when the wanted lines fire next.
func (c *crontab) nextMinute(s state.State) time.Time {
	if at, ok := s.NextAlarm(*c.policy, c.now()); ok && at.Before(s.NextDue) {
		return at
	}
	return s.NextDue
}

// stuckAsWanted reports whether the installed line, stuck at the short interval, is
// the one that the state asks for.
func (c *crontab) stuckAsWanted(s state.State) bool {
	want, err := c.job(s).Line()
	return err == nil && want == s.Schedule.Installed
}
