package turn

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
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
		parse:        claudeParser,
		separator:    "\n\n",
		loginRefused: regexp.MustCompile(`(?i)not logged in|invalid (x-)?api[ -]key|please run /login|authentication_failed|authentication_error|billing_error|credit balance is too low|oauth token (has expired|revoked)|failed to authenticate`),
		sessionGone:  regexp.MustCompile(`(?i)no conversation found with session id`),
	}
}

// claudeLine is what we read of one line: system, assistant, user or result.
type claudeLine struct {
	Type    string `json:"type"`
	Subtype string `json:"subtype"`
	Session string `json:"session_id"`
	Model   string `json:"model"`               // of init
	Version string `json:"claude_code_version"` // of init
	Parent  string `json:"parent_tool_use_id"`  // set on what a subagent says

	Message struct {
		// Blocks, or a plain string in a user's line.
		Content json.RawMessage `json:"content"`
		Usage   claudeUsage     `json:"usage"` // of its one call, again with each block
	} `json:"message"`

	Error json.RawMessage `json:"error"` // a word, or an object

	// Of result only.
	IsError bool     `json:"is_error"`
	Result  string   `json:"result"`
	Errors  []string `json:"errors"`
	CostUSD float64  `json:"total_cost_usd"`
	Since   map[string]struct {
		CostUSD float64 `json:"costUSD"`
	} `json:"model_usage_since_last_result"`
	Usage  claudeUsage `json:"usage"`
	Models map[string]struct {
		Window int64 `json:"contextWindow"`
	} `json:"modelUsage"`
}

type claudeUsage struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
}

// all is what a call has read and written: what the context holds after it.
func (u claudeUsage) all() int64 { return u.Input + u.Output + u.CacheRead + u.CacheWrite }

type claudeBlock struct {
	Type      string `json:"type"`
	Text      string `json:"text"`
	Thinking  string `json:"thinking"`
	ID        string `json:"id"`
	Name      string `json:"name"`
	ToolUseID string `json:"tool_use_id"`
}

// claudeParser adds up what the process costs. Up to 2.1.276 total_cost_usd
// counts the process, since then the whole session, the processes before a
// --resume included. Versions later still tell beside it, by model, what came
// since the last result; of those in between no figure is taken, and what the
// usage says, which is the process's own, is priced by the table.
func claudeParser() parser {
	spent, total := 0.0, true
	var context int64
	var model string
	return func(line []byte) []Event {
		var l claudeLine
		if json.Unmarshal(line, &l) != nil {
			return unknown(line)
		}
		if l.Type != "result" {
			total = total && !totalsSession(l.Version)
			model = cmp.Or(l.Model, model)
			if l.Parent == "" && l.Message.Usage.all() > 0 {
				context = l.Message.Usage.all()
			}
			return claudeEvents(line, l)
		}
		if l.Since == nil && total {
			spent = l.CostUSD
		}
		for _, part := range l.Since {
			spent += part.CostUSD
		}
		done := claudeResult(l, spent)
		done.Context, done.Window = context, l.Models[model].Window
		return []Event{done}
	}
}

// totalsSession says whether total_cost_usd of this version counts more than its
// process.
func totalsSession(version string) bool {
	v := make([]int, 3)
	n, _ := fmt.Sscanf(version, "%d.%d.%d", &v[0], &v[1], &v[2])
	return n == len(v) && slices.Compare(v, []int{2, 1, 277}) >= 0
}

func claudeEvents(line []byte, l claudeLine) []Event {
	switch l.Type {
	case "system":
		if l.Subtype == "init" {
			return []Event{{Kind: SessionStart, Session: l.Session, Model: l.Model}}
		}
		if l.Subtype == "api_retry" {
			return []Event{{Kind: Error, Text: "retrying: " + errorText(l.Error)}}
		}
		return unknown(line)
	case "assistant":
		if reason := errorText(l.Error); reason != "" {
			// The CLI's own words on a fault, dressed as the model's. The
			// result that follows says them again.
			return []Event{{Kind: Error, Text: reason}}
		}
		return claudeBlocks(line, l)
	case "user":
		return claudeBlocks(line, l)
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
func claudeResult(l claudeLine, spent float64) Event {
	e := Event{
		Kind: Done, Text: l.Result, CostUSD: spent,
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

// errorText is an error that may be a string or an object with a type or a message.
func errorText(raw json.RawMessage) string {
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
