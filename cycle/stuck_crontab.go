package cycle

import (
	"context"
	"errors"
	"time"

	"agentstateloop/state"
	"agentstateloop/state/store"
)

// pollWhileStuck keeps one poll on where the crontab line is stuck: the agent is engaged,
// but the table cannot be written, so that cron would come back only at the
// idle interval. Under linger.lock this process cycles at each minute that the
// asked-for line would fire, until the phase is IDLE or the table can be
// written again (DESIGN 9).
func (a *Agent) pollWhileStuck(ctx context.Context, s state.State) error {
	if !a.stuck(s) {
		return nil
	}
	lock, err := a.Store.TryLock(store.LingerLock)
	if err != nil || lock == nil {
		return err
	}
	defer lock.Unlock()
	a.log("staying: %s", s.Schedule.Error)
	for a.stuck(s) {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(0, s.NextDue.Sub(a.Now()))):
		}
		if _, err := a.Poll(ctx, PollOptions{IfDue: true}); err != nil && !errors.Is(err, ErrBusy) {
			return err
		}
		if s, err = a.Store.Read(); err != nil {
			return err
		}
		if !s.NextDue.After(a.Now()) {
			return nil // somebody else's poll is stuck; cron comes back
		}
	}
	return nil
}

// stuck says whether cron would not come back in time.
func (a *Agent) stuck(s state.State) bool {
	return a.Schedule.Mode == ModeCrontab && !s.Schedule.Removed && s.Schedule.Error != "" &&
		s.Interval(a.Policy) != a.Policy.IdleInterval && !a.linesUp(s)
}

// linesUp says whether the line that is installed fires at the asked interval
// all the same, being stuck at the short one.
func (a *Agent) linesUp(s state.State) bool {
	want, err := a.Job(s).Line()
	return err == nil && want == s.Schedule.Installed
}
