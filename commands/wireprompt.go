package commands

import (
	"slices"
	"strings"

	"agentstateloop/cycle"
	"agentstateloop/turn"
)

// mostRecall bounds, in KiB, what a session that begins is told of the past: more
// than a million tokens.
const mostRecall = 8 << 10

// wirePrompt wires what the agent is told.
func wirePrompt(c *config, a *cycle.Agent) error {
	t := c.file.Turn
	if t.Recall < 1 || t.Recall > mostRecall {
		return c.wrong("turn.recall", "must be 1 to %d: KiB of what was said before", mostRecall)
	}
	a.Recall = t.Recall << 10
	a.PeersRemember = t.Runner == turn.API && slices.Contains(c.file.API.Tools.Peer, "remember")
	if t.Prompts != "" {
		a.Prompts = c.resolve(t.Prompts)
	}
	if t.ContextWindow < 0 || t.ContextWindow > 0 && t.ContextWindow < smallWindow {
		return c.wrong("turn.context_window", "must be %d tokens or more", smallWindow)
	}
	a.Window = int64(t.ContextWindow)
	if len(t.Summary) > 0 && a.Turn != nil {
		summary := *a.Turn
		summary.Runner, summary.Command = turn.Exec, slices.Clone(t.Summary)
		if strings.HasPrefix(summary.Command[0], "~/") {
			summary.Command[0] = c.resolve(summary.Command[0])
		}
		a.Summary = &summary
	}
	return nil
}
