package turn

import (
	"encoding/json"
	"regexp"
)

// APIRefused begins an Error event of our own loop that tells that its key was
// refused, or that its account has no credit.
const APIRefused = "credential refused: "

// apiAgent runs our own loop (docs/decisions/0010): its stream is Events, a
// line each. It has no session: what it must know it is given anew. What its
// turn may do is a matter of its tools, not of arguments.
func apiAgent() agent {
	return agent{
		argv:         func(command []string, _ Attempt) []string { return command },
		parse:        func() parser { return parseAPI },
		billsCalls:   true,
		loginRefused: regexp.MustCompile(`^` + APIRefused),
	}
}

func parseAPI(line []byte) []Event {
	var e Event
	if json.Unmarshal(line, &e) != nil {
		return unknown(line)
	}
	switch e.Kind {
	case SessionStart, Thinking, TextDelta, ToolUse, ToolResult, Done, Error:
		return []Event{e}
	}
	return unknown(line)
}
