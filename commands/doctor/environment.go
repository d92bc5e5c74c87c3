package doctor

import (
	"context"
	"path/filepath"
	"slices"

	"agentstateloop/commands/config"
	"agentstateloop/cycle"
)

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
