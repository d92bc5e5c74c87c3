package cycle

import (
	"context"
	"errors"
	"time"

	"agentstateloop/state"
	"agentstateloop/state/store"
)

// pollWhileStuck stays on after a poll while the crontab lines are stuck: the agent is engaged,
// or a row is due before the next poll, but the table cannot be written. Cron would then come
// back only at the idle interval. Holding linger.lock, this process polls at each minute at
// which the wanted lines would fire. It ends when the phase is IDLE and no row needs it, or
// when the table can be written (docs/design.md, "The crontab").
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
	return s.Interval(*c.policy) != c.policy.IdleInterval && !c.linesUp(s) || c.alarmIsMissing(s)
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

// linesUp reports whether the installed line, stuck at the short interval, is
// the one that the state asks for.
func (c *crontab) linesUp(s state.State) bool {
	want, err := c.job(s).Line()
	return err == nil && want == s.Schedule.Installed
}
