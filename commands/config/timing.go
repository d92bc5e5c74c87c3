package config

import (
	"time"

	"agentstateloop/cron"
)

// checkIntervals rejects an interval of [timing] that a crontab line cannot express.
func (c *Config) checkIntervals() error {
	for _, interval := range []struct {
		key   string
		value Duration
	}{
		{"timing.idle_interval", c.File.Timing.IdleInterval},
		{"timing.engaged_interval", c.File.Timing.EngagedInterval},
	} {
		if _, err := cron.Expr(time.Duration(interval.value)); err != nil {
			return c.Wrong(interval.key, "%v", err)
		}
	}
	return nil
}
