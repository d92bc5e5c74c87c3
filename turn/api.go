package turn

import (
	"encoding/json"

	"agentstateloop/internal/lazy"
)

// APIRefused is the prefix of the Error event by which our own loop reports a refused key or an
// account without credit.
const APIRefused = "credential refused: "

// apiAgent runs our own loop (docs/decisions/0010-built-in-loop.md). It prints Events, one per line. It has no
// session: its prompt is complete. Its tools, not its arguments, decide what a turn may do.
func apiAgent() agent {
	return agent{
		argv:         func(command []string, _ Attempt) []string { return command },
		parse:        func() parser { return parseAPI },
		billsCalls:   true,
		loginRefused: lazy.NewRegexp(`^` + APIRefused),
	}
}

func parseAPI(line []byte) []Event {
	var e Event
	if json.Unmarshal(line, &e) != nil {
		return unknown(line)
	}
	switch e.Kind {
	case SessionStart, Thinking, TextDelta, ToolUse, ToolResult, Permission, Done, Error, Note, Refused, Unknown:
		return []Event{e}
	}
	return unknown(line)
}
