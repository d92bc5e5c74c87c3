package turn

import (
	"encoding/json"

	"agentstateloop/internal/lazy"
)

// APIRefused begins the Error event by which our own loop reports that its key
// was refused or that its account has no credit.
const APIRefused = "credential refused: "

// apiAgent runs our own loop (docs/decisions/0010). Its stream is Events, one a
// line. It has no session: its prompt holds everything. What a turn may do is
// decided by its tools, not by arguments.
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
