package turn

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"agentstateloop/internal/lazy"
)

// claudeAgent runs `claude -p --output-format stream-json --verbose`. claude resumes a session by
// its id, and only from the workdir where the session began.
func claudeAgent() agent {
	return agent{
		argv: func(command []string, a Attempt) []string {
			argv := append(command[:len(command):len(command)], "-p", "--output-format", "stream-json", "--verbose")
			argv = append(argv, a.toolArgs...)
			if a.Session != "" {
				argv = append(argv, "--resume", a.Session)
			}
			return append(argv, a.Extra...)
		},
		parse:        claudeParser,
		separator:    "\n\n",
		loginRefused: lazy.NewRegexp(`(?i)not logged in|invalid (x-)?api[ -]key|please run /login|authentication_failed|authentication_error|billing_error|credit balance is too low|oauth token (has expired|revoked)|failed to authenticate`),
		anyLogin:     true,
		anyLimit:     true,
	}
}

// claudeArguments returns arguments that add our server to the user's servers, and our tools to
// the tools that the user allows. Tools that the user denies stay denied. Each argument is one
// word, because both options take all the words that follow.
func (s ToolServer) claudeArguments() []string {
	config := map[string]any{"mcpServers": map[string]any{s.Name: map[string]any{
		"type": "stdio", "command": s.Command, "args": s.Args, "alwaysLoad": true,
	}}}
	args := []string{"--mcp-config=" + toJSON(config), "--allowedTools=mcp__" + s.Name}
	if s.approves {
		args = append(args, "--permission-prompt-tool=mcp__"+s.Name+"__"+ApproveTool)
	}
	return args
}

// claudeLine holds the fields that we read of a line. Its Type is system, assistant, user,
// rate_limit_event or result.
type claudeLine struct {
	Type    string `json:"type"`
	Subtype string `json:"subtype"`
	Session string `json:"session_id"`
	Model   string `json:"model"`               // of init
	Version string `json:"claude_code_version"` // of init
	Parent  string `json:"parent_tool_use_id"`  // set in a subagent's lines

	Servers []struct {
		Name   string `json:"name"`
		Status string `json:"status"`
	} `json:"mcp_servers"` // of init

	Message struct {
		// An array of blocks, or a string in a user's line.
		Content json.RawMessage `json:"content"`
		Model   string          `json:"model"` // "<synthetic>" in messages of the CLI itself
		Usage   claudeUsage     `json:"usage"` // of its call, repeated with each block
	} `json:"message"`

	Error     json.RawMessage `json:"error"`            // a string or an object
	APIStatus int             `json:"api_error_status"` // HTTP status of an API error

	RateLimit struct {
		Status   string `json:"status"`   // allowed, allowed_warning, rejected
		ResetsAt int64  `json:"resetsAt"` // Unix seconds
	} `json:"rate_limit_info"`

	// In result only.
	IsError bool     `json:"is_error"`
	Result  string   `json:"result"`
	Errors  []string `json:"errors"`
	CostUSD float64  `json:"total_cost_usd"`
	Since   map[string]struct {
		CostUSD float64 `json:"costUSD"`
	} `json:"model_usage_since_last_result"`
	Denials []struct {
		Tool  string          `json:"tool_name"`
		Input json.RawMessage `json:"tool_input"`
	} `json:"permission_denials"`
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

// all returns the tokens that a call has read and written. After the call, the context holds
// them.
func (u claudeUsage) all() int64 { return u.Input + u.Output + u.CacheRead + u.CacheWrite }

type claudeBlock struct {
	Type      string `json:"type"`
	Text      string `json:"text"`
	Thinking  string `json:"thinking"`
	ID        string `json:"id"`
	Name      string `json:"name"`
	ToolUseID string `json:"tool_use_id"`
}

// claudeParser returns a parser that adds up the cost of the process. Up to version 2.1.276,
// total_cost_usd counts the process. Later it counts the whole session, including the processes
// before a --resume. Still later versions also report the cost since the last result, by model.
// For the versions in between, the parser ignores the cost, and our table prices the usage, which
// counts the process.
func claudeParser() parser {
	spent, total := 0.0, true
	var context int64
	var model string
	return func(line []byte) []Event {
		var l claudeLine
		if json.Unmarshal(line, &l) != nil {
			return unknownEvent(line)
		}
		if l.Type != "result" {
			total = total && !costIsSessionTotal(l.Version)
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
		var events []Event
		for _, d := range l.Denials {
			if d.Tool == ClaudeAsks {
				continue // the denial tells it how to ask
			}
			events = append(events, Event{Kind: Refused, Tool: toolName(d.Tool), Text: toolInput(d.Input)})
		}
		return append(events, done)
	}
}

// costIsSessionTotal reports whether total_cost_usd of this version counts the whole session.
func costIsSessionTotal(version string) bool {
	v := make([]int, 3)
	n, _ := fmt.Sscanf(version, "%d.%d.%d", &v[0], &v[1], &v[2])
	return n == len(v) && slices.Compare(v, []int{2, 1, 277}) >= 0
}

func claudeEvents(line []byte, l claudeLine) []Event {
	switch l.Type {
	case "system":
		if l.Subtype == "init" {
			events := []Event{{Kind: SessionStart, Session: l.Session, Model: l.Model}}
			for _, s := range l.Servers {
				if s.Name == ToolServerName && s.Status == "failed" {
					events = append(events, Event{Kind: Error, Text: "the MCP server " + ToolServerName + " did not start: its tools are missing"})
				}
			}
			return events
		}
		if l.Subtype == "api_retry" {
			return []Event{{Kind: Error, Text: "retrying: " + errorText(l.Error)}}
		}
		return unknownEvent(line)
	case "assistant":
		if reason := errorText(l.Error); reason != "" || l.Message.Model == "<synthetic>" && l.Parent == "" {
			// An error message of the CLI in the form of a model's text. The result that follows
			// repeats it.
			return []Event{l.markLimited(Event{Kind: Error, Text: cmp.Or(reason, l.text())})}
		}
		return claudeBlocks(line, l)
	case "rate_limit_event":
		if l.RateLimit.Status != "rejected" {
			return nil
		}
		e := Event{Kind: Error, Limited: true}
		if l.RateLimit.ResetsAt > 0 {
			e.Until = time.Unix(l.RateLimit.ResetsAt, 0).UTC()
		}
		return []Event{e}
	case "user":
		return claudeBlocks(line, l)
	}
	return unknownEvent(line)
}

// claudeBlocks returns an event for each known block of a message.
func claudeBlocks(line []byte, l claudeLine) []Event {
	var blocks []claudeBlock
	if json.Unmarshal(l.Message.Content, &blocks) != nil {
		return unknownEvent(line)
	}
	var events []Event
	for _, b := range blocks {
		switch {
		case b.Type == "tool_use":
			events = append(events, Event{Kind: ToolUse, Tool: toolName(b.Name), ToolID: b.ID})
		case b.Type == "tool_result":
			events = append(events, Event{Kind: ToolResult, ToolID: b.ToolUseID})
		case b.Type == "thinking":
			events = append(events, Event{Kind: Thinking, Text: b.Thinking})
		case b.Type == "text" && l.Type == "assistant" && l.Parent == "":
			events = append(events, Event{Kind: TextDelta, Text: b.Text})
		}
	}
	if len(events) == 0 {
		return unknownEvent(line)
	}
	return events
}

// claudeResult reads the last line. Its subtype can be success even if is_error is true. Every
// other subtype is an error.
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
	if e.Failed {
		return l.markLimited(e)
	}
	return e
}

// markLimited marks the event of a transient API error.
func (l claudeLine) markLimited(e Event) Event {
	e.Limited = l.APIStatus == http.StatusTooManyRequests
	e.Overload = l.APIStatus >= http.StatusInternalServerError
	return e
}

// text returns the text of a message.
func (l claudeLine) text() string {
	var blocks []claudeBlock
	_ = json.Unmarshal(l.Message.Content, &blocks)
	var text []string
	for _, b := range blocks {
		text = append(text, b.Text)
	}
	return strings.Join(text, "\n")
}

// errorText returns the text of an error: a string, or an object with a type or a message.
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

// ClaudeAsks is the tool by which claude asks the person at its terminal. claude has it only if its
// requests for permission are answered.
const ClaudeAsks = "AskUserQuestion"

// ClaudeRequest returns the request by which claude asks permission to call one of its own tools.
func ClaudeRequest(tool string, input json.RawMessage) ToolRequest {
	kinds := map[string]string{
		"Bash": "execute", "Read": "read", "Glob": "search", "Grep": "search", "WebFetch": "fetch", "WebSearch": "fetch",
		"Edit": "edit", "MultiEdit": "edit", "Write": "edit", "NotebookEdit": "edit",
	}
	return ToolRequest{Name: tool, Title: tool, Kind: cmp.Or(kinds[tool], "other"), Input: input}
}

// toolInput returns the input of a tool for people to read: its command, file or URL, or
// otherwise all of it.
func toolInput(input json.RawMessage) string {
	var known struct {
		Command  string `json:"command"`
		FilePath string `json:"file_path"`
		URL      string `json:"url"`
	}
	if json.Unmarshal(input, &known) == nil && cmp.Or(known.Command, known.FilePath, known.URL) != "" {
		return cmp.Or(known.Command, known.FilePath, known.URL)
	}
	return string(input)
}
