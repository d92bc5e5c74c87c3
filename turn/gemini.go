package turn

import (
	"encoding/json"

	"agentstateloop/internal/lazy"
)

// geminiAgent runs `gemini --output-format stream-json --skip-trust` with the prompt on stdin.
// gemini resumes a session by its id, and only from the workdir where the session began.
func geminiAgent() agent {
	return agent{
		argv: func(command []string, a Attempt) []string {
			argv := append(command[:len(command):len(command)], "--output-format", "stream-json", "--skip-trust")
			if a.Session != "" {
				argv = append(argv, "--resume", a.Session)
			}
			return append(argv, a.Extra...)
		},
		parse:        geminiParser,
		loginRefused: lazy.NewRegexp(`(?i)please set an auth method|invalid auth method|when using (gemini api|vertex ai), you must|api key not valid|api_key_invalid|unauthenticated|manual authorization is required`),
		loginExit:    geminiNotLoggedIn,
		anyLogin:     true,
		anyLimit:     true,
	}
}

// geminiLine holds the fields that we read of a line.
type geminiLine struct {
	Type    string `json:"type"`
	Session string `json:"session_id"`
	Model   string `json:"model"` // of init
	Role    string `json:"role"`
	Content string `json:"content"`
	Tool    string `json:"tool_name"`
	ToolID  string `json:"tool_id"`

	Parameters json.RawMessage `json:"parameters"` // of tool_use
	Message    string          `json:"message"`    // of error

	Status string          `json:"status"`
	Error  json.RawMessage `json:"error"`
	Stats  struct {
		Input  int64 `json:"input"` // without cached tokens
		Output int64 `json:"output_tokens"`
		Cached int64 `json:"cached"`
	} `json:"stats"`
}

// geminiParser returns a parser that remembers tool calls. When a result reports that a call was
// not permitted, the parser can name the tool.
func geminiParser() parser {
	asked := map[string]geminiLine{}
	return func(line []byte) []Event {
		var l geminiLine
		if json.Unmarshal(line, &l) != nil {
			return unknownEvent(line)
		}
		events := geminiEvents(line, l)
		switch {
		case l.Type == "tool_use" && len(asked) < maxOpenTools:
			asked[l.ToolID] = l
		case l.Type == "tool_result":
			if call := asked[l.ToolID]; l.Status == "error" && refusalTypes.Get().MatchString(errorType(l.Error)) {
				events = append(events, Event{Kind: Refused, Tool: toolName(call.Tool), Text: toolInput(call.Parameters)})
			}
			delete(asked, l.ToolID)
		}
		return events
	}
}

// maxOpenTools bounds how many calls without a result the parser remembers.
const maxOpenTools = 1000

// refusalTypes matches the error types of calls that were not run.
var refusalTypes = lazy.NewRegexp(`^(tool_not_registered|policy_violation|.*denied.*|.*rejected.*)$`)

// errorType returns the type of an error.
func errorType(raw json.RawMessage) string {
	var e struct {
		Type string `json:"type"`
	}
	_ = json.Unmarshal(raw, &e)
	return e.Type
}

func geminiEvents(line []byte, l geminiLine) []Event {
	switch l.Type {
	case "init":
		return []Event{{Kind: SessionStart, Session: l.Session, Model: l.Model}}
	case "message":
		if l.Role == "assistant" {
			return []Event{{Kind: TextDelta, Text: l.Content}}
		}
		return nil // our own prompt
	case "tool_use":
		return []Event{{Kind: ToolUse, Tool: toolName(l.Tool), ToolID: l.ToolID}}
	case "tool_result":
		return []Event{{Kind: ToolResult, ToolID: l.ToolID}}
	case "error":
		return []Event{{Kind: Error, Text: l.Message}}
	case "result":
		e := Event{Kind: Done, Usage: Usage{Input: l.Stats.Input, Output: l.Stats.Output, CacheRead: l.Stats.Cached}}
		if l.Status != "success" {
			e.Failed, e.Text = true, errorText(l.Error)
			if e.Text == "" {
				e.Text = "result status " + l.Status
			}
		}
		return []Event{e}
	}
	return unknownEvent(line)
}
