package commands

import (
	"context"
	"fmt"
	"slices"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle/prompt"
)

// checkPrompt renders the prompt of the next message, or of an example, with
// the user's templates.
func (d *patient) checkPrompt(context.Context) []finding {
	const check = "prompt"
	if d.agent == nil {
		return nil // the agent's own finding says so
	}
	if d.agent.Prompts == "" {
		return []finding{good(check, "all layers are built in")}
	}
	view, err := d.agent.Prompt("")
	if err != nil {
		return []finding{failure(check, "see `agentstateloop prompt`", err)}
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
		return []finding{good(check, "%s of %d from %s", terminal.Count(own, "layer"), len(view.Layers), d.agent.Prompts)}
	}
	var found []finding
	for _, fault := range faults {
		found = append(found, finds(levelWarn, check, "mend the template; `agentstateloop prompt --list` shows what is used", "%s", fault))
	}
	return found
}
