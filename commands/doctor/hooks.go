package doctor

import (
	"context"
	"fmt"
	"strings"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/state"
)

// hooksCheck checks the requirements of the hooks. It calls no hook.
type hooksCheck struct {
	agent *cycle.Agent
	state state.State
}

func (c hooksCheck) run(ctx context.Context) []Finding {
	var found []Finding
	for _, h := range c.agent.Hooks {
		name := "hook." + h.Name
		if f := c.state.FailingHooks[h.Name]; f.Fails() {
			hint, lost := "run `"+terminal.Program+" hook test "+h.Name+"`", ""
			if f.Lost > 0 {
				lost = fmt.Sprintf(", %s lost", terminal.Count(f.Lost, "event"))
				hint += fmt.Sprintf("; lost events are not sent again: `%s events --since %d` shows them", terminal.Program, f.After)
			}
			found = append(found, bad(Warn, name, hint, "failing since %s%s: %s", f.Since.UTC().Format("2006-01-02 15:04Z"), lost, f.Reason))
		}
		if p := h.Program; p != nil {
			if !config.CanRun(p.Command[0]) {
				found = append(found, bad(Error, name, "fix command; a name without a slash is looked up in the PATH of env in [turn]", "%s is not an executable file", p.Command[0]))
				continue
			}
			found = append(found, good(name, "%s is executable; it receives %s", p.Command[0], strings.Join(h.On, ", ")))
			continue
		}
		found = append(found, c.address(ctx, name, h.Address.Token, h.Address.Secret)...)
	}
	return found
}

// address reads the secrets of a hook with an address.
func (c hooksCheck) address(ctx context.Context, name string, secrets ...func(context.Context) (string, error)) []Finding {
	read := 0
	for _, secret := range secrets {
		if secret == nil {
			continue
		}
		if _, err := secret(ctx); err != nil {
			return []Finding{failure(name, "it must be a file of yours, with mode 0600 and one line of text", err)}
		}
		read++
	}
	if read == 0 {
		return []Finding{good(name, "has a url, and needs no secret")}
	}
	return []Finding{good(name, "has a url, and its secrets are readable")}
}
