package doctor

import (
	"context"
	"fmt"
	"slices"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/cycle/prompt"
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
		found = append(found, bad(Warn, name, "correct the template; `agentstateloop prompt --list` shows which are used", "%s", fault))
	}
	return found
}
