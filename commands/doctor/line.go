package doctor

import (
	"context"
	"strings"

	"agentstateloop/cron"
	"agentstateloop/cycle"
	"agentstateloop/state"
)

// lineCheck compares our line with the one that the state asks for.
type lineCheck struct {
	agent    *cycle.Agent
	mode     string
	table    []byte
	readable bool
	state    state.State
}

func (c lineCheck) run(context.Context) []Finding {
	if c.mode == cycle.ModeNone {
		return nil
	}
	return []Finding{c.look()}
}

func (c lineCheck) look() Finding {
	const name = "line"
	if !c.readable {
		return skip(name, "the crontab could not be read", "see crontab")
	}
	if c.mode == cycle.ModeFixed {
		return c.lookForUsers()
	}
	ours := cron.Find(c.table, c.agent.Handle)
	if c.state.Schedule.Removed && len(ours) == 0 {
		return bad(Warn, name, "`agentstateloop init` installs it again", "uninstalled: nothing polls")
	}
	wanted, err := c.agent.Job(c.state).Line()
	switch {
	case err != nil:
		return failure(name, "cron could not run it", err)
	case len(ours) == 0:
		return bad(Error, name, "`agentstateloop poll` installs it", "@%s has no line in the crontab: nothing polls", c.agent.Handle)
	case len(ours) > 1:
		return bad(Warn, name, "the next poll keeps one", "@%s has %d lines in the crontab", c.agent.Handle, len(ours))
	case ours[0] != wanted:
		return bad(Warn, name, "the next poll corrects it; `agentstateloop poll` does it now", "is %q, and should be %q", ours[0], wanted)
	}
	return good(name, "as it should be, %d of 900 bytes: %s", len(wanted), wanted)
}

// lookForUsers looks for the line that the user keeps with mode = "fixed".
func (c lineCheck) lookForUsers() Finding {
	const name = "line"
	for line := range strings.Lines(string(c.table)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") || !strings.Contains(line, "poll") || !strings.Contains(line, c.agent.Config) {
			continue
		}
		if !strings.Contains(line, "--if-due") {
			return bad(Warn, name, "add --if-due to it", "yours polls each time it fires, whether a poll is due or not: %s", line)
		}
		return good(name, "yours: %s", line)
	}
	return bad(Warn, name, "* * * * * '"+c.agent.Schedule.Binary+"' --config '"+c.agent.Config+"' poll --if-due --quiet",
		`[schedule] mode = "fixed", and your crontab has no line that polls with this configuration`)
}
