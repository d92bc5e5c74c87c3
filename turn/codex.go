package turn

import (
	"cmp"
	"encoding/json"
	"path"
	"slices"
	"strconv"
	"strings"

	"agentstateloop/internal/lazy"
)

// codexAgent runs `codex exec --json -`, or `codex exec --json resume ID -`, with the prompt on
// stdin. The options precede resume, because codex accepts only some of them after it, and not
// --sandbox.
func codexAgent() agent {
	return agent{
		argv: func(command []string, a Attempt) []string {
			argv := append(command[:len(command):len(command)], "exec", "--json", "--skip-git-repo-check")
			argv = append(argv, a.toolArgs...)
			argv = append(argv, keepLastModel(a.Extra)...)
			if a.Session != "" {
				argv = append(argv, "resume", a.Session)
			}
			return append(argv, "-")
		},
		parse:        codexParser,
		separator:    "\n\n",
		cumulative:   true,
		loginRefused: lazy.NewRegexp(`(?i)401 unauthorized|not logged in|codex login|log (out and )?sign in again|missing environment variable|quota exceeded\. check your plan|insufficient_quota`),
		anyLogin:     true,
		refusals:     lazy.NewRegexp(`codex_core::tools::router: error=(\w+) failed:? .*?Rejected\(\\?"(.+?)\\?"\)`),
		anyLimit:     true,
	}
}

// codexToolTimeout is how long codex waits for a tool call, in seconds: longer than a call waits
// for its runner.
const codexToolTimeout = 150

// codexArguments returns arguments that add our server to those in the user's config.toml. The
// server's tools need no approval, because no person is there to give it.
func (s ToolServer) codexArguments() []string {
	at := "mcp_servers." + s.Name + "."
	return []string{
		"-c", at + "command=" + toJSON(s.Command),
		"-c", at + "args=" + toJSON(s.Args),
		"-c", at + "env_vars=" + toJSON(s.variables()),
		"-c", at + `default_tools_approval_mode="approve"`,
		"-c", at + "tool_timeout_sec=" + strconv.Itoa(codexToolTimeout),
	}
}

// keepLastModel removes all but the last model from args, because exec fails with two. One more
// model may precede exec, with lower precedence.
func keepLastModel(args []string) []string {
	kept := slices.Clone(args)
	named := false
	for i := len(kept) - 1; i >= 0; i-- {
		n := 0
		switch {
		case strings.HasPrefix(kept[i], "--model="):
			n = 1
		case (kept[i] == "--model" || kept[i] == "-m") && i+1 < len(kept):
			n = 2
		default:
			continue
		}
		if named {
			kept = slices.Delete(kept, i, i+n)
		}
		named = true
	}
	return kept
}

// codexLine holds the fields that we read of a line.
type codexLine struct {
	Type    string          `json:"type"`
	Thread  string          `json:"thread_id"`
	Message string          `json:"message"`
	Error   json.RawMessage `json:"error"`
	Item    struct {
		ID      string `json:"id"`
		Type    string `json:"type"`
		Text    string `json:"text"`
		Message string `json:"message"`
		Server  string `json:"server"` // of mcp_tool_call
		Tool    string `json:"tool"`
		Status  string `json:"status"`  // "declined" if the action was not permitted
		Command string `json:"command"` // of command_execution
	} `json:"item"`
	Usage struct {
		Input      int64 `json:"input_tokens"` // including cached tokens
		Cached     int64 `json:"cached_input_tokens"`
		CacheWrite int64 `json:"cache_write_input_tokens"`
		Output     int64 `json:"output_tokens"`
	} `json:"usage"`
}

// codexParser returns a parser that keeps the last message. It is the answer, and the line that
// ends a turn does not contain it.
func codexParser() parser {
	last := ""
	return func(line []byte) []Event {
		var l codexLine
		if json.Unmarshal(line, &l) != nil {
			return unknownEvent(line)
		}
		switch l.Type {
		case "thread.started":
			return []Event{{Kind: SessionStart, Session: l.Thread}}
		case "turn.started":
			return []Event{{Kind: Thinking}}
		case "item.started", "item.completed":
			e := codexItem(l)
			if e.Kind == Unknown {
				return unknownEvent(line)
			}
			if e.Kind == TextDelta {
				last = e.Text
			}
			if l.Type == "item.completed" && l.Item.Status == "declined" {
				return []Event{{Kind: Refused, Tool: l.Item.Type, Text: cmp.Or(l.Item.Command, l.Item.Tool)}, e}
			}
			return []Event{e}
		case "turn.completed":
			return []Event{{Kind: Done, Text: last, Usage: Usage{
				Input:  max(0, l.Usage.Input-l.Usage.Cached-l.Usage.CacheWrite),
				Output: l.Usage.Output, CacheRead: l.Usage.Cached, CacheWrite: l.Usage.CacheWrite,
			}}}
		case "turn.failed":
			return []Event{{Kind: Done, Failed: true, Text: errorText(l.Error)}}
		case "error":
			return []Event{{Kind: Error, Text: l.Message}}
		}
		return unknownEvent(line)
	}
}

// codexItem returns the event of an item. Messages and thoughts count when they are complete.
// Every other known item is a tool: it starts and completes.
func codexItem(l codexLine) Event {
	done := l.Type == "item.completed"
	switch l.Item.Type {
	case "agent_message":
		if done {
			return Event{Kind: TextDelta, Text: l.Item.Text}
		}
	case "reasoning":
		if done {
			return Event{Kind: Thinking, Text: l.Item.Text}
		}
	case "error":
		// A warning of the CLI itself. The turn goes on. If the turn fails later, the warning is
		// not the cause.
		return Event{Kind: Unknown}
	case "command_execution", "file_change", "mcp_tool_call", "collab_tool_call", "web_search":
		if done {
			return Event{Kind: ToolResult, ToolID: l.Item.ID}
		}
		name := l.Item.Type
		if l.Item.Tool != "" {
			name = path.Join(l.Item.Server, l.Item.Tool)
		}
		return Event{Kind: ToolUse, Tool: name, ToolID: l.Item.ID}
	}
	return Event{Kind: Unknown}
}
