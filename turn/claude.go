package turn

import (
	"encoding/json"
	"regexp"
	"strings"
)

// claudeAgent runs `claude -p --output-format stream-json --verbose`. A
// session is resumed by its id, and only from the workdir it began in.
func claudeAgent() agent {
	return agent{
		argv: func(command []string, a Attempt) []string {
			argv := append(command[:len(command):len(command)], "-p", "--output-format", "stream-json", "--verbose")
			if a.Session != "" {
				argv = append(argv, "--resume", a.Session)
			}
			return append(argv, a.Extra...)
		},
		parse:   func() parser { return parseClaude },
		joint:   "\n\n",
		refused: regexp.MustCompile(`(?i)not logged in|invalid (x-)?api[ -]key|please run /login|authentication_failed|authentication_error|billing_error|credit balance is too low|oauth token (has expired|revoked)|failed to authenticate`),
		stale:   regexp.MustCompile(`(?i)no conversation found with session id`),
	}
}

// claudeLine is what we read of one line: system, assistant, user or result.
type claudeLine struct {
	Type    string `json:"type"`
	Subtype string `json:"subtype"`
	Session string `json:"session_id"`
	Parent  string `json:"parent_tool_use_id"` // set on what a subagent says

	Message struct {
		// Blocks, or a plain string in a user's line.
		Content json.RawMessage `json:"content"`
	} `json:"message"`

	Error json.RawMessage `json:"error"` // a word, or an object

	// Of result only. Usage elsewhere counts a block's message, again with
	// each of its blocks.
	IsError bool     `json:"is_error"`
	Result  string   `json:"result"`
	Errors  []string `json:"errors"`
	CostUSD float64  `json:"total_cost_usd"`
	Usage   struct {
		Input      int64 `json:"input_tokens"`
		Output     int64 `json:"output_tokens"`
		CacheRead  int64 `json:"cache_read_input_tokens"`
		CacheWrite int64 `json:"cache_creation_input_tokens"`
	} `json:"usage"`
}

type claudeBlock struct {
	Type      string `json:"type"`
	Text      string `json:"text"`
	Thinking  string `json:"thinking"`
	ID        string `json:"id"`
	Name      string `json:"name"`
	ToolUseID string `json:"tool_use_id"`
}

func parseClaude(line []byte) []Event {
	var l claudeLine
	if json.Unmarshal(line, &l) != nil {
		return unknown(line)
	}
	switch l.Type {
	case "system":
		if l.Subtype == "init" {
			return []Event{{Kind: SessionStart, Session: l.Session}}
		}
		if l.Subtype == "api_retry" {
			return []Event{{Kind: Error, Text: "retrying: " + word(l.Error)}}
		}
		return unknown(line)
	case "assistant":
		if reason := word(l.Error); reason != "" {
			// The CLI's own words on a fault, dressed as the model's. The
			// result that follows says them again.
			return []Event{{Kind: Error, Text: reason}}
		}
		return claudeBlocks(line, l)
	case "user":
		return claudeBlocks(line, l)
	case "result":
		return []Event{claudeResult(l)}
	}
	return unknown(line)
}

// claudeBlocks gives an event for each block of a message that is ours to tell.
func claudeBlocks(line []byte, l claudeLine) []Event {
	var blocks []claudeBlock
	if json.Unmarshal(l.Message.Content, &blocks) != nil {
		return unknown(line)
	}
	var events []Event
	for _, b := range blocks {
		switch {
		case b.Type == "tool_use":
			events = append(events, Event{Kind: ToolUse, Tool: b.Name, ToolID: b.ID})
		case b.Type == "tool_result":
			events = append(events, Event{Kind: ToolResult, ToolID: b.ToolUseID})
		case b.Type == "thinking":
			events = append(events, Event{Kind: Thinking, Text: b.Thinking})
		case b.Type == "text" && l.Type == "assistant" && l.Parent == "":
			events = append(events, Event{Kind: TextDelta, Text: b.Text})
		}
	}
	if len(events) == 0 {
		return unknown(line)
	}
	return events
}

// claudeResult reads the last line. Its subtype says success also when
// is_error is true; and every subtype but success is an error.
func claudeResult(l claudeLine) Event {
	e := Event{
		Kind: Done, Text: l.Result, CostUSD: l.CostUSD,
		Failed: l.IsError || l.Subtype != "success",
		Usage: Usage{
			Input: l.Usage.Input, Output: l.Usage.Output,
			CacheRead: l.Usage.CacheRead, CacheWrite: l.Usage.CacheWrite,
		},
	}
	if e.Failed && e.Text == "" {
		e.Text = strings.Join(l.Errors, "; ")
	}
	if e.Failed && e.Text == "" {
		e.Text = l.Subtype
	}
	return e
}

// word is an error that may be a string or an object with a type or a message.
func word(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var o struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	}
	if json.Unmarshal(raw, &o) != nil {
		return ""
	}
	if o.Message != "" {
		return o.Message
	}
	return o.Type
}
