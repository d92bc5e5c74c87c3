package doctor

import (
	"context"

	"agentstateloop/cron"
	"agentstateloop/cycle"
)

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
