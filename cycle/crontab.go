package cycle

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"agentstateloop/cron"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// verifyEvery is how often the installed crontab line is read while the state
// asks for the line that was last verified (docs/design.md, "The crontab line is
// a projection").
const verifyEvery = 30 * time.Minute

// crontab keeps the agent's line in the user's table.
type crontab struct {
	handle, config string
	schedule       Schedule
	policy         state.Policy
	store          *store.Store
	now            func() time.Time
}

// Job returns the crontab line that the state asks for.
func (a *Agent) Job(s state.State) cron.Job { return a.crontab().job(s) }

// job is Job. The binary is the one that the line was first installed with, as
// long as that exists, so trying out another build does not move the agent to
// it.
func (c crontab) job(s state.State) cron.Job {
	binary := c.schedule.Binary
	if pinned := s.Schedule.Binary; pinned != "" {
		if _, err := os.Stat(pinned); err == nil {
			binary = pinned
		}
	}
	job := cron.Job{Agent: c.handle, Binary: binary, Config: c.config, Interval: s.Interval(c.policy)}
	if c.schedule.Linger > 0 && s.Phase.Engaged() && !s.Halted() {
		job.Args = []string{"--linger", c.schedule.Linger.String()}
	}
	return job
}

// project installs the line that the state asks for. It does nothing if that
// line was verified less than verifyEvery ago, so a steady poll starts no
// crontab process.
func (c crontab) project(ctx context.Context, s state.State) []state.Event {
	if c.schedule.Mode != ModeCrontab || s.Schedule.Removed {
		return nil
	}
	job := c.job(s)
	line, err := job.Line()
	if err != nil {
		return c.notInstalled(s, s.Schedule.Installed, err)
	}
	fresh := c.now().Sub(s.Schedule.Verified) < verifyEvery
	if line == s.Schedule.Installed && s.Schedule.Error == "" && fresh {
		return nil
	}
	if cron.Hangs(ctx) {
		return nil // this poll has seen that already
	}
	if _, err := c.schedule.Table.Install(ctx, job); err != nil {
		return c.notInstalled(s, c.installed(ctx, s), err)
	}
	// An `uninstall` that came meanwhile may have removed the line before we
	// wrote it.
	if now, err := c.store.Read(); err == nil && now.Schedule.Removed {
		if _, err := c.schedule.Table.Remove(ctx, c.handle); err != nil {
			return c.notInstalled(s, line, err)
		}
		return nil
	}
	return []state.Event{state.Scheduled{Line: line, Binary: job.Binary}}
}

// notInstalled returns the event for a line that could not be installed.
func (c crontab) notInstalled(s state.State, installed string, err error) []state.Event {
	e := state.Scheduled{Line: installed, Binary: s.Schedule.Binary, Reason: err.Error()}
	return []state.Event{e}
}

// installed returns the line that is in the table now, or "" if the table cannot be
// read. If crontab hangs, it returns the line that was installed last.
func (c crontab) installed(ctx context.Context, s state.State) string {
	table, err := c.schedule.Table.Read(ctx)
	if errors.Is(err, cron.ErrHangs) {
		return s.Schedule.Installed
	}
	if err != nil {
		return ""
	}
	lines := cron.Find(table, c.handle)
	if len(lines) == 0 {
		return ""
	}
	return lines[0]
}

// misplaced reports whether the installed line differs from the one that the
// state asks for although the table can be written: the phase has changed since.
func (c crontab) misplaced(s state.State) bool {
	if c.schedule.Mode != ModeCrontab || s.Schedule.Removed || s.Schedule.Error != "" {
		return false
	}
	line, err := c.job(s).Line()
	return err == nil && line != s.Schedule.Installed
}

// status compares the installed line with the one that the state asks for.
func (c crontab) status(s state.State) StatusSchedule {
	st := StatusSchedule{Error: orNull(s.Schedule.Error), Installed: orNull(timeFields(s.Schedule.Installed))}
	if c.schedule.Mode != ModeCrontab || s.Schedule.Removed {
		return st
	}
	line, err := c.job(s).Line()
	if err != nil {
		st.Error = orNull(err.Error())
		return st
	}
	st.Wanted = orNull(timeFields(line))
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

// Install takes the crontab line into our care, also after an `uninstall`, and
// installs the one that the state asks for. If that fails, the reason is in
// Schedule.Error of the state that Install returns. If a cycle is under way, that
// cycle installs the line.
func (a *Agent) Install(ctx context.Context) (state.State, error) {
	s, err := a.journal().commit(ctx, state.Unscheduled{Removed: false})
	if err != nil {
		return s, err
	}
	_, err = withLock(a.Store, store.CycleLock, func() error {
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
	return s, err
}

// Uninstall removes our crontab line and records that it must stay away. Cycles
// leave the table alone until `init` or `transition`.
func (a *Agent) Uninstall(ctx context.Context) (cron.Change, error) {
	if a.Schedule.Mode != ModeCrontab {
		return cron.Change{}, errors.New("schedule.mode is not \"crontab\": remove the line yourself, if there is one")
	}
	if _, err := a.journal().commit(ctx, state.Unscheduled{Removed: true}); err != nil {
		return cron.Change{}, err
	}
	return a.Schedule.Table.Remove(ctx, a.Handle)
}
