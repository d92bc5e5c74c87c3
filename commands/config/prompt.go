package config

import (
	"slices"

	"agentstateloop/turn"
)

// mostRecall bounds, in KiB, what a new session is told of the past: more than a
// million tokens.
const mostRecall = 8 << 10

// promptParts is what the agent is told, and how much of it.
type promptParts struct {
	folder        string       // of the user's templates; "": none
	recall        int          // bytes
	window        int64        // tokens; 0: not set
	summary       *turn.Config // nil: the agent itself makes summaries
	peersRemember bool
}

// wirePrompt wires the keys of [turn] about prompts. turns may be nil.
func wirePrompt(c *Config, turns *turn.Config) (promptParts, error) {
	t := c.File.Turn
	if t.Recall < 1 || t.Recall > mostRecall {
		return promptParts{}, c.Wrong("turn.recall", "must be 1 to %d: KiB of what was said before", mostRecall)
	}
	if t.ContextWindow < 0 || t.ContextWindow > 0 && t.ContextWindow < smallWindow {
		return promptParts{}, c.Wrong("turn.context_window", "must be %d tokens or more", smallWindow)
	}
	parts := promptParts{
		recall:        t.Recall << 10,
		window:        int64(t.ContextWindow),
		peersRemember: t.Runner == turn.API && slices.Contains(c.File.API.Tools.Peer, "remember"),
	}
	if t.Prompts != "" {
		parts.folder = c.Resolve(t.Prompts)
	}
	if len(t.Summary) > 0 && turns != nil {
		summary := *turns
		summary.Runner, summary.Command = turn.Exec, c.turnCommand(t.Summary)
		parts.summary = &summary
	}
	return parts, nil
}
