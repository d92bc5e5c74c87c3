package doctor

import (
	"context"
	"path/filepath"
	"slices"

	"agentstateloop/commands/config"
	"agentstateloop/cycle"
)

// homeCheck reports that HOME and passwd differ, or that passwd does not list the user
// (internal/account).
type homeCheck struct {
	home  string // the home directory in use
	note  string // see config.Loader.HomeNote
	user  int    // user id
	known bool   // whether passwd lists the user
}

func (c homeCheck) run(context.Context) []Finding {
	const name = "home"
	switch {
	case !c.known:
		return []Finding{bad(Info, name, `cron runs no jobs for such a user: keep `+"`agentstateloop listen`"+` running, with mode = "none" in [schedule]`,
			"user %d is not in passwd: ~ is HOME, %s", c.user, c.home)}
	case c.note != "":
		return []Finding{bad(Info, name, "to use other files, name their configuration with --config FILE", "%s", c.note)}
	}
	return nil
}

// environmentCheck reports the variables that a cron job gets, and those that would change the
// behavior of our line.
type environmentCheck struct {
	mode     string         // of [schedule]
	loader   *config.Loader // with the environment of a cron job
	readable bool           // whether the crontab is
}

func (c environmentCheck) run(context.Context) []Finding {
	const name = "environment"
	if c.mode == cycle.ModeNone || !c.readable {
		return nil
	}
	var found []Finding
	if shell := filepath.Base(c.loader.Env("SHELL")); !slices.Contains([]string{"sh", "bash", "dash", "ash", "ksh", "mksh", "zsh", "busybox"}, shell) {
		found = append(found, bad(Warn, name, "set SHELL=/bin/sh above our line in the crontab", "the crontab sets SHELL=%s, which may not run our line as sh does", shell))
	}
	for _, zone := range []string{"CRON_TZ", "TZ"} {
		if value := c.loader.Env(zone); value != "" {
			found = append(found, bad(Warn, name, "move that line below ours",
				"the crontab sets %s=%s above our line: the alarm line and an interval in hours may fire at an unexpected time", zone, value))
		}
	}
	if len(found) > 0 {
		return found
	}
	home, _ := c.loader.Home()
	return []Finding{good(name, "cron jobs get PATH=%s and HOME=%s; ~ in the configuration is %s", c.loader.Env("PATH"), c.loader.Env("HOME"), home)}
}
