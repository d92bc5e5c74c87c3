package doctor

import (
	"context"

	"agentstateloop/cron"
	"agentstateloop/cycle"
)

// daemonCheck looks for a running cron daemon.
type daemonCheck struct {
	mode string // of [schedule]
	proc string // /proc
}

func (c daemonCheck) run(context.Context) []Finding {
	const name = "cron"
	if c.mode == cycle.ModeNone {
		return nil
	}
	daemon, pid, known := cron.Daemon(c.proc)
	switch {
	case !known:
		return []Finding{bad(Info, name, "make sure that cron is running: `agentstateloop status` reports a missed poll", "cannot see here whether cron is running")}
	case daemon == "":
		return []Finding{bad(Error, name,
			"start it, for example with `service cron start`; in a container without cron keep `agentstateloop listen` running, with mode = \"none\" in [schedule]",
			"cron is not running: no polls run")}
	}
	return []Finding{good(name, "%s is running, process %d", daemon, pid)}
}
