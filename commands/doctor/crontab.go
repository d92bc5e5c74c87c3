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

// These end the hints about a crontab that cannot be read or written: another way
// to poll, and what happens until then (docs/design.md, "The next poll").
const (
	useFixed  = "or set mode = \"fixed\" in [schedule] and have another program run `agentstateloop poll --if-due` each minute"
	meanwhile = "; until then the line keeps its interval: if that is one minute, polls that are not due stay off the network; " +
		"if it is longer, one poll keeps running while the agent is engaged"
)

// crontabCheck checks that the crontab can be read and, as far as a check without
// a write can show, written.
type crontabCheck struct {
	mode      string // of [schedule]
	table     cron.Table
	text      []byte // of the crontab
	err       error  // of reading text
	proc      string // /proc
	lastError string // why the last poll could not write the line; "": it could
}

func (c crontabCheck) run(context.Context) []Finding {
	const name = "crontab"
	if c.mode == cycle.ModeNone {
		return []Finding{skip(name, `mode = "none" in [schedule]: another program must run the polls`, "make sure that it does: `agentstateloop status` shows the next poll")}
	}
	if c.err != nil {
		hint := "make sure that `crontab -l` works, " + useFixed
		if errors.Is(c.err, cron.ErrNotAllowed) {
			hint = "ask the administrator to add you to cron.allow, " + useFixed
		}
		return []Finding{failure(name, hint+meanwhile, c.err)}
	}
	found := []Finding{good(name, "readable, %s", terminal.Count(strings.Count(string(c.text), "\n"), "line"))}
	if c.mode == cycle.ModeFixed {
		return found
	}
	command := cmp.Or(c.table.Command, "crontab")
	if !strings.Contains(command, "/") && config.InPath(command, cron.JobPath) == "" {
		found = append(found, bad(Error, name, "set crontab in [schedule] to the program's full path",
			"%s is not in the PATH of cron jobs, %s: polls cannot write the crontab", command, cron.JobPath))
	}
	if why := c.table.Obstacle(c.proc); why != "" {
		found = append(found, bad(Error, name, "run agentstateloop outside that container or systemd unit, "+useFixed+meanwhile,
			"cannot be written from here: %s", why))
	}
	if c.lastError != "" {
		found = append(found, bad(Error, name, "fix that, then run `agentstateloop poll`"+meanwhile, "the last poll could not write its line: %s", c.lastError))
	}
	return found
}
