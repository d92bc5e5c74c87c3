package doctor

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cron"
	"agentstateloop/cycle"
)

// What to do where the crontab cannot be written, and what happens until then
// (docs/design.md, "The crontab").
const (
	useFixed  = `or set mode = "fixed" in [schedule], and have something else run poll --if-due each minute`
	meanwhile = "; until then polls spare the network where the line is stuck at one minute, " +
		"and where it is stuck at thirty, one poll stays and cycles each minute while the agent is engaged"
)

// crontabCheck reports whether the crontab can be read and, as far as can be
// told without writing, written.
type crontabCheck struct {
	mode      string
	table     cron.Table
	text      []byte
	err       error  // of reading text
	proc      string // the kernel's process folder
	lastError string // of the last poll that set the line; "": none
}

func (c crontabCheck) run(context.Context) []Finding {
	const name = "crontab"
	if c.mode == cycle.ModeNone {
		return []Finding{skip(name, `[schedule] mode = "none": something else polls`, "make sure that it does: `agentstateloop status` shows the next poll")}
	}
	if c.err != nil {
		hint := "make sure that `crontab -l` works, " + useFixed
		if errors.Is(c.err, cron.ErrNotAllowed) {
			hint = "ask the administrator to add you to cron.allow, " + useFixed
		}
		return []Finding{failure(name, hint+meanwhile, c.err)}
	}
	found := []Finding{good(name, "can be read: %s", terminal.Count(strings.Count(string(c.text), "\n"), "line"))}
	if c.mode == cycle.ModeFixed {
		return found
	}
	command := cmp.Or(c.table.Command, "crontab")
	if !strings.Contains(command, "/") && config.InPath(command, cron.JobPath) == "" {
		found = append(found, bad(Error, name, "set crontab in [schedule] to its whole path",
			"%s is not in the PATH that cron gives a job, %s: polls could not write the table", command, cron.JobPath))
	}
	if why := c.table.Obstacle(c.proc); why != "" {
		found = append(found, bad(Error, name, "run agentstateloop outside of that container or unit, "+useFixed+meanwhile,
			"cannot be written from here: %s", why))
	}
	if c.lastError != "" {
		found = append(found, bad(Error, name, "fix that and poll once"+meanwhile, "the last poll could not set its line: %s", c.lastError))
	}
	return found
}
