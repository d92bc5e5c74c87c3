package doctor

import (
	"context"
	"errors"
	"strings"

	"agentstateloop/cron"
	"agentstateloop/cron/timer"
	"agentstateloop/cycle"
	"agentstateloop/state"
)

// timerCheck compares the timer of an agent with the one that its mode needs: the units on disk,
// the timer that runs, and whether it runs while the user is not logged in.
type timerCheck struct {
	agent *cycle.Agent
	mode  string // of [schedule]
	table []byte // text of the crontab
	state state.State
	err   error // of reading state
}

func (c timerCheck) run(ctx context.Context) []Finding {
	const name = "timer"
	t := c.agent.Timer(c.state)
	if !c.agent.Schedule.HasTimer() {
		units, err := t.Installed()
		if err != nil || len(units) == 0 {
			return nil
		}
		hint := "run `agentstateloop init`, which removes it"
		if c.mode != cycle.ModeCrontab {
			hint = "if that is not intended, run `agentstateloop uninstall`"
		}
		return []Finding{bad(Warn, name, hint, "mode = %q in [schedule], but a timer polls, too: %s", c.mode, strings.Join(units, ", "))}
	}
	found := []Finding{c.finding(ctx, t)}
	if lines := len(cron.Find(c.table, t.Agent)); lines > 0 {
		found = append(found, bad(Warn, name, "run `agentstateloop init`, which removes the line",
			"mode = %q in [schedule], but a line of the crontab polls, too", c.mode))
	}
	return append(found, c.lingers(ctx, t)...)
}

func (c timerCheck) finding(ctx context.Context, t timer.Timer) Finding {
	const name = "timer"
	missing := t.Missing()
	if c.state.Schedule.Removed && missing != "" {
		return bad(Warn, name, "run `agentstateloop init` to install it again", "uninstalled: no polls run")
	}
	if native := timer.Native(); native != c.mode {
		return bad(Error, name, "run `agentstateloop init --timer`, or set mode = \"crontab\" in [schedule]",
			"mode = %q in [schedule], but this operating system has no %s", c.mode, c.mode)
	}
	if missing != "" {
		return bad(Error, name, "run `agentstateloop init`", "no timer polls: %s", missing).fixedBy(c.install())
	}
	changed, err := t.Changed()
	if err != nil {
		return failure(name, "the timer cannot poll with this binary or configuration", err)
	}
	active, err := t.Active(ctx)
	switch {
	case errors.Is(err, timer.ErrNoProgram):
		return failure(name, "set mode = \"crontab\" in [schedule], and run `agentstateloop init`", err)
	case err != nil:
		return failure(name, "see `agentstateloop status` for the last poll", err)
	case !active:
		return bad(Error, name, "run `agentstateloop init`", "%s is not active: no polls run", t.Running()).fixedBy(c.install())
	case len(changed) > 0:
		return bad(Warn, name, "run `agentstateloop init`, which writes it again; settings of your own belong into `systemctl --user edit`",
			"%s differs from what this version writes for this binary and configuration", strings.Join(changed, ", ")).fixedBy(c.install())
	}
	return good(name, "%s is active, and polls each minute", t.Running())
}

// install returns the repair that installs the timer.
func (c timerCheck) install() *repair { return reinstall(c.agent, c.state, c.err, "timer") }

// lingers reports a timer that ends when the user logs out.
func (c timerCheck) lingers(ctx context.Context, t timer.Timer) []Finding {
	const name = "linger"
	if t.Kind != timer.Systemd || c.state.Schedule.Removed {
		return nil
	}
	switch on, err := t.Lingers(ctx); {
	case err != nil:
		return []Finding{bad(Info, name, "`loginctl enable-linger` keeps the timer running while you are logged out", "cannot tell whether the timer runs while you are logged out: %v", err)}
	case !on:
		return []Finding{bad(Warn, name, "run `loginctl enable-linger`", "the timer and running turns end when you log out")}
	}
	return []Finding{good(name, "the timer runs while you are logged out")}
}
