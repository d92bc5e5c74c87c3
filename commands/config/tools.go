package config

import (
	"errors"
	"maps"
	"os"
	"slices"
	"time"

	"agentstateloop/state"
	"agentstateloop/turn/react"
)

// ToolTimeout limits the exec tool, and each tool without a timeout of its own.
const ToolTimeout = time.Minute

// maxSchema limits the JSON schema of a tool, in bytes.
const maxSchema = 64 << 10

// wireTools returns the user's tools, sorted by name.
func (c *Config) wireTools() ([]react.Program, error) {
	var all []react.Program
	for _, name := range slices.Sorted(maps.Keys(c.File.Tools)) {
		if c.isMCPServer(name) {
			continue
		}
		program, err := c.wireTool(name, c.File.Tools[name])
		if err != nil {
			return nil, err
		}
		all = append(all, program)
	}
	return all, nil
}

// wireTool returns the user's tool with a name.
func (c *Config) wireTool(name string, t toolSection) (react.Program, error) {
	key := "tools." + name
	program := react.Program{Name: name, Description: t.Description, Command: slices.Clone(t.Command), Timeout: ToolTimeout}
	switch {
	case len(t.Command) == 0:
		return program, c.Missing(key+".command", `set a program such as ["./deploy.sh"], or mcp for an MCP server`)
	case t.Description == "":
		return program, c.Missing(key+".description", "describe the tool for the model")
	case t.Schema == "":
		return program, c.Missing(key+".schema", "set it to a file with the JSON schema of the tool's arguments")
	}
	program.Command[0] = c.ResolveProgram(t.Command[0])
	var err error
	if program.Schema, err = readSmallFile(c.Resolve(t.Schema), maxSchema); err != nil {
		return program, c.Wrong(key+".schema", "%v", err)
	}
	if t.Timeout > 0 {
		program.Timeout = time.Duration(t.Timeout)
	}
	if err := c.wireAfterExecution(key, t, &program); err != nil {
		return program, err
	}
	if _, err := program.Tool(); err != nil {
		return program, c.Wrong(key, "%v", err)
	}
	return program, nil
}

// wireAfterExecution sets the action that follows a call of the tool.
func (c *Config) wireAfterExecution(key string, t toolSection, program *react.Program) error {
	program.After, program.Deadline, program.Peers = react.After(t.AfterExecution), time.Duration(t.Deadline), t.ReportFrom
	suspends := program.After == react.Suspend || program.After == react.ByOutput
	switch {
	case t.AfterExecution == "":
	case !slices.Contains([]react.After{react.Continue, react.Suspend, react.Terminate, react.ByOutput}, program.After):
		return c.Wrong(key+".after_execution", "%q is not one of: continue, suspend, terminate, tool", t.AfterExecution)
	}
	if !suspends && (t.Deadline != 0 || len(t.ReportFrom) > 0) {
		return c.At(splitKey(key), `set after_execution = "suspend", or remove deadline and report_from`, "deadline and report_from are set, but the tool does not suspend the turn")
	}
	if program.Deadline == 0 {
		program.Deadline = state.DefaultDeadline
	}
	if program.Deadline > state.MaxPatience {
		return c.Wrong(key+".deadline", "must be at most %v", state.MaxPatience)
	}
	for _, handle := range t.ReportFrom {
		if !slices.Contains(c.File.Mesh.Peers, handle) {
			return c.At(splitKey(key+".report_from"), "add it to peers in [mesh]", "%q is not a peer", handle)
		}
	}
	return nil
}

var errNotSmallFile = errors.New("not a regular file of at most 64 KiB")

// readSmallFile reads a regular file of at most limit bytes.
func readSmallFile(path string, limit int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, &os.PathError{Op: "read", Path: path, Err: errNotSmallFile}
	}
	return os.ReadFile(path)
}
