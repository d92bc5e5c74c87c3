package cycle

import (
	"context"
	"errors"
	"fmt"

	"agentstateloop/cron"
	"agentstateloop/cron/timer"
	"agentstateloop/cycle/view"
	"agentstateloop/state"
)

// timers keeps the units of the agent's timer. Unlike the crontab line they never change with the
// state, and polls leave them alone (docs/decisions/0068-timers.md).
type timers struct {
	core
	journal  *journal
	crontab  *crontab
	config   string
	schedule Schedule
}

// Timer returns the timer of an agent with such a mode, for the state s. For other modes it names
// the units that a timer of the agent would have.
func (a *Agent) Timer(s state.State) timer.Timer { return a.timers().timer(s) }

// timer is Timer.
func (u *timers) timer(s state.State) timer.Timer {
	return timer.Timer{Kind: u.schedule.Mode, Agent: u.handle, Binary: u.crontab.binary(s), Config: u.config, Home: u.schedule.Home}
}

// EnableTimer writes the units of the agent's timer and starts it. It leaves crontab lines alone.
func (a *Agent) EnableTimer(ctx context.Context) error {
	s, err := a.Store.Read()
	if err != nil {
		return err
	}
	t := a.Timer(s)
	return errors.Join(t.Write(), t.Enable(ctx))
}

// install enables the timer, and then removes our crontab lines, so that the agent is polled at
// all times. A failure is in Schedule.Error of the returned state.
func (u *timers) install(ctx context.Context, s state.State) (state.State, error) {
	t := u.timer(s)
	e := state.Scheduled{Line: t.Name(), Binary: t.Binary}
	err := t.Write()
	if err == nil {
		err = t.Enable(ctx)
	}
	if err == nil {
		if _, err = u.removeLines(ctx, false); err != nil {
			err = fmt.Errorf("the timer polls, but the crontab line may do so, too: %w", err)
		}
	}
	if ctx.Err() != nil {
		return s, ErrInterrupted
	}
	if err != nil {
		e = state.Scheduled{Line: s.Schedule.Installed, AlarmLine: s.Schedule.AlarmLine, Alarm: s.Schedule.Alarm, Reason: err.Error()}
	}
	return u.journal.commit(ctx, e)
}

// stopPolls removes the timer and the crontab lines. In each mode of [schedule] there may be units
// or lines of an earlier one. The line of a user in mode fixed has no tag of ours, so it stays. It
// returns the change of the table and the removed units. A table that cannot be used is an error
// only if needTable.
func (u *timers) stopPolls(ctx context.Context, s state.State, needTable bool) (cron.Change, []string, error) {
	units, err := u.timer(s).Remove(ctx)
	change, tableErr := u.removeLines(ctx, needTable)
	return change, units, errors.Join(err, tableErr)
}

// removeLines removes our lines from the crontab. Unless needTable, it does nothing if this machine
// has no crontab program, or the user may not use it.
func (u *timers) removeLines(ctx context.Context, needTable bool) (cron.Change, error) {
	change, err := u.schedule.Table.Remove(ctx, u.handle)
	if !needTable && (errors.Is(err, cron.ErrNoProgram) || errors.Is(err, cron.ErrNotAllowed)) {
		return change, nil
	}
	return change, err
}

// status shows the units that are missing or differ. It starts no process.
func (u *timers) status(s state.State) view.StatusSchedule {
	st := view.StatusSchedule{Error: view.OrNull(s.Schedule.Error)}
	if at, ok := s.NextAlarm(*u.crontab.policy, u.now()); ok {
		st.Alarm, st.AlarmReason = &at, view.OrNull(s.Due(*u.crontab.policy, at))
	}
	t := u.timer(s)
	switch missing := t.Missing(); {
	case missing == "":
		st.Installed = view.OrNull(t.Running())
	case !s.Schedule.Removed && st.Error == nil:
		st.Error = view.OrNull(missing)
	}
	if !s.Schedule.Removed {
		st.Wanted = view.OrNull(t.Running())
	}
	return st
}
