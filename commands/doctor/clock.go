package doctor

import (
	"context"
	"time"

	"agentstateloop/commands/terminal"
)

// maxSkew is the largest difference between two clocks without a warning.
const maxSkew = 5 * time.Minute

const clockHint = "set this machine's clock, and use NTP to keep it right"

// clockCheck compares the clock with the time of the last commit. The checks of mail and mesh
// compare it with the clocks of their servers.
type clockCheck struct {
	lastStep time.Time
	now      func() time.Time
}

func (c clockCheck) run(context.Context) []Finding {
	const name = "clock"
	now := c.now()
	if ahead := c.lastStep.Sub(now); ahead > maxSkew {
		return []Finding{bad(Warn, name, clockHint, "this machine's clock is %s behind the last poll: it was set back now, or it was ahead then", terminal.Short(ahead))}
	}
	return []Finding{good(name, "%s", now.Local().Format("2006-01-02 15:04:05 -0700 MST"))}
}
