package doctor

import (
	"context"
	"time"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/state"
)

// promptsCheck checks the requirements of the clock's prompts. It runs no prompt.
type promptsCheck struct {
	agent *cycle.Agent
	state state.State
	now   time.Time
}

func (c promptsCheck) run(context.Context) []Finding {
	var found []Finding
	for i, p := range c.agent.Prompted {
		name := "prompt." + p.Name
		for _, row := range c.state.Prompts {
			if row.Name == p.Name && row.Fails != "" {
				found = append(found, bad(Warn, name, "`"+terminal.Program+" prompt run "+p.Name+"` runs it now, without its if", "it fails since %s: %s", row.Since.UTC().Format("2006-01-02 15:04Z"), row.Fails))
			}
		}
		if _, err := p.Words(); err != nil {
			found = append(found, bad(Error, name, "a text file of at most 64 KiB; a relative path is looked for next to agent.toml", "%v", err))
			continue
		}
		if p.If != nil && !config.CanRun(p.If.Command[0]) {
			found = append(found, bad(Error, name, "correct if; a name without a slash is looked for in the PATH of env in [turn]", "%s is not an executable file", p.If.Command[0]))
			continue
		}
		policy := c.agent.Policy.Prompts[i]
		next := policy.Next(c.now, c.agent.Policy.Location)
		if next.IsZero() {
			found = append(found, bad(Error, name, "correct at", "%q does not come within twelve years", policy.At))
			continue
		}
		found = append(found, good(name, "%q is next at %s", policy.At, next.Format("2006-01-02 15:04 MST")))
	}
	return found
}
