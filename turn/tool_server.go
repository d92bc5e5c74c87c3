package turn

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// ToolServerCommand is the subcommand of our own binary that offers our commands as tools to an
// agent in its turn. It speaks the Model Context Protocol on standard input and output.
const ToolServerCommand = "mcp"

// ToolServerName is the name of that server in the configuration of the agent's program.
const ToolServerName = "agentstateloop"

// ApproveTool is the tool of that server that decides requests for permission. The server offers
// it if it gets the flag ApproveFlag.
const (
	ApproveTool = "approve"
	ApproveFlag = "approve"
)

// ToolServer describes how to start the server of our tools.
type ToolServer struct {
	Name    string
	Command string // absolute
	Args    []string

	// Env is the part of the attempt's environment that the server needs: the turn that it
	// serves, and the address of the turn's runner. It contains no secret.
	Env map[string]string

	approves bool // it offers ApproveTool
}

// toolServer returns the server for an attempt with this environment.
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

// variables returns the names in Env, sorted. A command line names the variables without their
// values: the program has them in its own environment.
func (s ToolServer) variables() []string { return slices.Sorted(maps.Keys(s.Env)) }

// offer makes the agent's program start the server. It returns further arguments for the program,
// and may change its environment and its sandbox.
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

// toolName returns the name of an agent's tool for the live view. mcp__x__y becomes x/y, and so
// does mcp_x_y of our own server.
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

// quoted returns a value as JSON. For texts and lists of texts, this JSON is also TOML.
func quoted(value any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		panic(err) // every value here can be marshalled
	}
	return strings.TrimSpace(b.String())
}
