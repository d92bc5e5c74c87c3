package cycle

import (
	"context"
	"errors"
	"time"

	"agentstateloop/state"
	"agentstateloop/state/store"
)

// pollWhileStuck stays on after a poll while the crontab line is stuck: the
// agent is engaged, but the table cannot be written, so cron would come back only
// at the idle interval. Holding linger.lock, this process polls at each minute
// at which the wanted line would fire, until the phase is IDLE or the table can
// be written (docs/design.md, "The crontab").
func (p poller) pollWhileStuck(ctx context.Context) error {
	s, err := p.store.Read()
	if err != nil || !p.crontab.stuck(s) {
		return err
	}
	lock, err := p.store.TryLock(store.LingerLock)
	if err != nil || lock == nil {
		return err
	}
	defer lock.Unlock()
	p.log.printf("staying: %s", s.Schedule.Error)
	for p.crontab.stuck(s) {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(0, s.NextDue.Sub(p.now()))):
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

// stuck reports whether cron would come back too late.
func (c crontab) stuck(s state.State) bool {
	return c.schedule.Mode == ModeCrontab && !s.Schedule.Removed && s.Schedule.Error != "" &&
		s.Interval(c.policy) != c.policy.IdleInterval && !c.linesUp(s)
}

// linesUp reports whether the installed line, stuck at the short interval, is
// the one that the state asks for.
func (c crontab) linesUp(s state.State) bool {
	want, err := c.job(s).Line()
	return err == nil && want == s.Schedule.Installed
}
