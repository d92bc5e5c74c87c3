package doctor

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cron"
	"agentstateloop/cycle"
	"agentstateloop/state"
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

// environmentCheck reports what a job gets from cron, and what of it would
// mislead our line.
type environmentCheck struct {
	mode     string
	job      *config.Loader
	readable bool // whether the crontab is
}

func (c environmentCheck) run(context.Context) []Finding {
	const name = "environment"
	if c.mode == cycle.ModeNone || !c.readable {
		return nil
	}
	var found []Finding
	if shell := filepath.Base(c.job.Env("SHELL")); !slices.Contains([]string{"sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "busybox"}, shell) {
		found = append(found, bad(Warn, name, "set SHELL=/bin/sh above our line in the crontab", "the crontab sets SHELL=%s, which may not read our line as sh does", shell))
	}
	for _, zone := range []string{"CRON_TZ", "TZ"} {
		if value := c.job.Env(zone); value != "" {
			found = append(found, bad(Warn, name, "move that line below ours",
				"the crontab sets %s=%s above our line: intervals of hours would fire at unexpected times", zone, value))
		}
	}
	if len(found) > 0 {
		return found
	}
	home, _ := c.job.Home()
	return []Finding{good(name, "a job gets PATH=%s and HOME=%s; files are looked for in %s", c.job.Env("PATH"), c.job.Env("HOME"), home)}
}

// daemonCheck looks for a running cron.
type daemonCheck struct{ mode, proc string }

func (c daemonCheck) run(context.Context) []Finding {
	const name = "cron"
	if c.mode == cycle.ModeNone {
		return nil
	}
	daemon, pid, known := cron.Daemon(c.proc)
	switch {
	case !known:
		return []Finding{bad(Info, name, "make sure that cron runs: `agentstateloop status` shows when a poll did not come", "whether it runs cannot be told here")}
	case daemon == "":
		return []Finding{bad(Error, name,
			"start it, such as `service cron start`; in a container without it keep `agentstateloop listen` running, with [schedule] mode = \"none\"",
			"no cron runs here: nothing polls")}
	}
	return []Finding{good(name, "%s runs, process %d", daemon, pid)}
}
