package doctor

import (
	"context"

	"agentstateloop/cycle"
	"agentstateloop/state"
)

// budgetCheck looks for backends whose turns [budget] cannot count.
type budgetCheck struct {
	agent *cycle.Agent
	state state.State
}

func (c budgetCheck) run(context.Context) []Finding {
	var found []Finding
	for _, backend := range c.state.Uncounted(c.agent.Policy) {
		found = append(found, bad(Warn, "budget", "set a limit at the provider, or use a runner that reports its cost",
			"%s reports neither a cost nor tokens, so [budget] does not limit its turns", state.BackendName(backend)))
	}
	return found
}
