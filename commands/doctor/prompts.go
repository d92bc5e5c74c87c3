package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/prompt"
	"agentstateloop/state"
)

// promptCheck renders the prompt of the next message, or of an example, with the user's templates.
// It reports each template that fails.
type promptCheck struct{ agent *cycle.Agent }

func (c promptCheck) run(context.Context) []Finding {
	const name = "prompt"
	if c.agent.Prompts == "" {
		return []Finding{good(name, "all layers are built in")}
	}
	view, err := c.agent.Prompt("")
	if err != nil {
		return []Finding{failure(name, "see `agentstateloop prompt`", err)}
	}
	faults := slices.Clone(view.Faults)
	own := 0
	for _, l := range view.Layers {
		if l.Fault != "" {
			faults = append(faults, fmt.Sprintf("the built-in %s is used: %s", l.Name, l.Fault))
		}
		if l.From != prompt.BuiltIn {
			own++
		}
	}
	if len(faults) == 0 {
		return []Finding{good(name, "%d of %s from %s", own, terminal.Count(len(view.Layers), "layer"), c.agent.Prompts)}
	}
	var found []Finding
	for _, fault := range faults {
		found = append(found, bad(Warn, name, "fix the template; `agentstateloop prompt --list` shows the templates in use", "%s", fault))
	}
	return found
}

// promptsCheck checks the requirements of the clock's prompts. It runs no prompt.
type promptsCheck struct {
	agent *cycle.Agent
	state state.State
	now   time.Time
}

func (c promptsCheck) run(context.Context) []Finding {
	var found []Finding
	for i, p := range c.agent.ClockPrompts {
		name := "prompt." + p.Name
		for _, row := range c.state.Prompts {
			if row.Name == p.Name && row.Fails != "" {
				found = append(found, bad(Warn, name, "`"+terminal.Program+" prompt run "+p.Name+"` runs it now, and ignores if", "failing since %s: %s", row.Since.UTC().Format("2006-01-02 15:04Z"), row.Fails))
			}
		}
		if _, err := p.Words(); err != nil {
			found = append(found, bad(Error, name, "use a text file of at most 64 KiB; a relative path is relative to the folder of agent.toml", "%v", err))
			continue
		}
		if p.If != nil && !config.CanRun(p.If.Command[0]) {
			found = append(found, bad(Error, name, "fix if; a name without a slash is looked up in the PATH of env in [turn]", "%s is not an executable file", p.If.Command[0]))
			continue
		}
		policy := c.agent.Policy.Prompts[i]
		next := policy.Next(c.now, c.agent.Policy.Location)
		if next.IsZero() {
			found = append(found, bad(Error, name, "fix at", "%q does not occur within twelve years", policy.At))
			continue
		}
		found = append(found, good(name, "%q runs next at %s", policy.At, next.Format("2006-01-02 15:04 MST")))
	}
	return found
}
