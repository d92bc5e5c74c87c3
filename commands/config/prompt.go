package config

import "agentstateloop/turn"

// maxRecall limits turn.recall, in KiB. It is more than a million tokens.
const maxRecall = 8 << 10

// promptParts holds the settings of the agent's prompts.
type promptParts struct {
	folder  string       // of the user's templates; "" if not set
	recall  int          // bytes of earlier conversation for a new session
	window  int64        // context window in tokens; 0 if not set
	summary *turn.Config // the program that summarizes; nil for the agent itself
}

// wirePrompt wires the keys of [turn] about prompts. turns may be nil.
func wirePrompt(c *Config, turns *turn.Config) (promptParts, error) {
	t := c.File.Turn
	if t.Recall < 1 || t.Recall > maxRecall {
		return promptParts{}, c.Wrong("turn.recall", "must be from 1 to %d KiB", maxRecall)
	}
	if t.ContextWindow < 0 || t.ContextWindow > 0 && t.ContextWindow < minWindow {
		return promptParts{}, c.Wrong("turn.context_window", "must be %d tokens or more", minWindow)
	}
	parts := promptParts{
		recall: t.Recall << 10,
		window: int64(t.ContextWindow),
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
