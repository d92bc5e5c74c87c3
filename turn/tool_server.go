package turn

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// ToolServerCommand is the subcommand of our own binary that offers an agent in its turn
// our commands as tools, by the Model Context Protocol on standard input and output.
const ToolServerCommand = "mcp"

// ToolServerName is how an agent's program knows that server.
const ToolServerName = "agentstateloop"

// ApproveTool is the tool of that server that decides requests for permission. ApproveFlag
// has the server offer it.
const (
	ApproveTool = "approve"
	ApproveFlag = "approve"
)

// ToolServer says how to start the server of our tools.
type ToolServer struct {
	Name    string
	Command string // absolute
	Args    []string

	// Env is what it needs of the attempt's environment: which turn it serves, and where
	// its runner listens. No secret is in it.
	Env map[string]string

	approves bool // it offers ApproveTool
}

// toolServer returns the server for an environment of an attempt.
func (c Config) toolServer(env map[string]string) ToolServer {
	ours := maps.Clone(env)
	maps.DeleteFunc(ours, func(name, _ string) bool {
		return !strings.HasPrefix(name, "AGENTSTATELOOP_") && name != "XDG_CONFIG_HOME"
	})
	server := ToolServer{Name: ToolServerName, Command: c.Self, Args: []string{ToolServerCommand}, Env: ours, approves: c.Approve}
	if c.Approve {
		server.Args = append(server.Args, "--"+ApproveFlag)
	}
	return server
}

// variables returns the names of Env, sorted. A command line names the variables and not
// their values: the program has them in its own environment.
func (s ToolServer) variables() []string { return slices.Sorted(maps.Keys(s.Env)) }

// offer has the agent's program start the server. It returns further arguments for it, and
// may change its environment and its box.
func (s ToolServer) offer(runner string, a *Attempt, env map[string]string) (args []string, err error) {
	switch runner {
	case Claude:
		return s.claudeArguments(), nil
	case Codex:
		return s.codexArguments(), nil
	case Gemini:
		return nil, s.geminiHome(a, env)
	}
	return nil, nil
}

// toolName returns what the live view shows of a tool that an agent names: mcp__x__y and,
// of our own server, mcp_x_y are x/y.
func toolName(name string) string {
	if rest, ok := strings.CutPrefix(name, "mcp__"); ok {
		if server, tool, ok := strings.Cut(rest, "__"); ok && server != "" && tool != "" {
			return server + "/" + tool
		}
	}
	if tool, ok := strings.CutPrefix(name, "mcp_"+ToolServerName+"_"); ok {
		return ToolServerName + "/" + tool
	}
	return name
}

// quoted returns a value as JSON, which is TOML too for texts and lists of them.
func quoted(value any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		panic(err) // texts and lists of them
	}
	return strings.TrimSpace(b.String())
}
