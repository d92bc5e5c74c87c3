package commands

import (
	"context"
	"encoding/json"
	"time"

	"agentstateloop/cycle"
)

// watchEvery is how often status --watch reads the status.
const watchEvery = time.Second

// watch shows the status of an agent, and again whenever it changes, until ctx
// ends, which is not an error. Time that passes is not a change.
func watch(ctx context.Context, a *cycle.Agent, show func(cycle.Status) error) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	shown := ""
	for {
		s, err := a.Status()
		if err != nil {
			return err
		}
		now, err := json.Marshal(s)
		if err != nil {
			return err
		}
		if string(now) != shown {
			if err := show(s); err != nil {
				return err
			}
			shown = string(now)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
