package doctor

import (
	"context"

	"agentstateloop/commands/config"
	"agentstateloop/cycle/heartbeat"
)

// heartbeatCheck sends the monitor one request, like a successful poll.
type heartbeatCheck struct {
	config  *config.Config
	monitor *heartbeat.Monitor // nil if the section has no monitor, or an error
	network bool
}

func (c heartbeatCheck) run(ctx context.Context) []Finding {
	const name = "heartbeat"
	s := c.config.File.Schedule
	if c.monitor == nil {
		if s.Heartbeat != "" || s.HeartbeatSource().CountSet() > 0 || s.HeartbeatInsecure {
			return []Finding{skip(name, "its address has an error; see config", "")}
		}
		return []Finding{bad(Info, name, "set heartbeat_file in [schedule]: each poll then calls a monitor, such as healthchecks.io or Uptime Kuma, which alerts you when polls stop or fail",
			"no monitor: if this machine or cron stops, no mail tells you")}
	}
	if !c.network {
		return []Finding{skip(name, "needs the network", "run doctor without --no-network")}
	}
	call, err := c.monitor.Connect(ctx)
	if err == nil {
		err = call.Send(ctx, "")
	}
	if err != nil {
		hint := "compare your address with the one on the monitor's page; polls work without it"
		if own := config.HeartbeatHint(err); own != config.HeartbeatHint(nil) {
			hint = own
		}
		return []Finding{failure(name, hint, err)}
	}
	return []Finding{good(name, "the monitor accepted a request")}
}
