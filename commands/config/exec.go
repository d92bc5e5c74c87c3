package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/turn"
	"agentstateloop/turn/box"
)

// Lower bounds of [api.exec]. A shell with a pipe takes a few processes and some memory.
const (
	minProcesses = 16
	minMemory    = 64 // MiB
	minFileSize  = 1  // MiB
)

// checkExec checks [api.exec]. It rejects a folder that contains one of the agent's own files, and
// a folder inside the state.
func (c *Config) checkExec() error {
	s := c.File.API.Exec
	for _, n := range []struct {
		key         string
		value, from int
	}{{"api.exec.processes", s.Processes, minProcesses}, {"api.exec.memory", s.Memory, minMemory}, {"api.exec.file_size", s.FileSize, minFileSize}} {
		if n.value < n.from {
			return c.Wrong(n.key, "must be at least %d", n.from)
		}
	}
	for _, path := range s.Read {
		if err := c.checkGranted("api.exec.read", c.Resolve(path)); err != nil {
			return err
		}
	}
	return nil
}

// checkGranted checks a folder that key grants to a sandbox.
func (c *Config) checkGranted(key, path string) error {
	if err := box.Grantable(path); err != nil {
		return c.At(splitKey(key), "name the folder of a tool, such as \"~/.nvm/versions\"", "%v", err)
	}
	// An agent with write access to the link's folder could point the link anywhere.
	if resolved, err := filepath.EvalSymlinks(path); err == nil && resolved != path {
		return c.At(splitKey(key), "use "+resolved, "%s contains a symbolic link", path)
	}
	ownFile := c.ownFileIn(path)
	for _, dir := range []string{c.stateFolder(), c.StateDir().Path} {
		if contains(dir, path) {
			ownFile = dir
		}
	}
	if ownFile != "" {
		return c.At(splitKey(key), "use a folder with only the files that programs need", "%s would expose %s to programs in the sandbox", path, ownFile)
	}
	return nil
}

// limits returns the limits of a sandbox.
func (s execSection) limits() box.Limits {
	return box.Limits{Processes: s.Processes, Memory: int64(s.Memory) << 20, FileSize: int64(s.FileSize) << 20, CPU: time.Duration(s.CPU)}
}

// ExecBox returns the sandbox that [api.exec] configures.
func (c *Config) ExecBox() box.Box {
	s := c.File.API.Exec
	b := box.Box{Network: s.Network, Limits: s.limits()}
	for _, path := range s.Read {
		b.Read = append(b.Read, c.Resolve(path))
	}
	return b
}

// acpSection lists the kinds of tools that an agent of runner = "acp" may use without asking, by
// the cause of the turn.
type acpSection struct {
	Operator []string `toml:"operator"`
	Peer     []string `toml:"peer"`
	Event    []string `toml:"event"`
	Task     []string `toml:"task"`
	Self     []string `toml:"self"`

	Options    map[string]string `toml:"options"`
	LowOptions map[string]string `toml:"low_options"`
}

// readingKinds are the kinds of tools allowed by default: those that change nothing.
var readingKinds = []string{"read", "search", "think"}

// wireKinds returns the tool kinds that [turn.acp] grants.
func (c *Config) wireKinds() (cycle.Kinds, error) {
	s := c.File.Turn.ACP
	if c.File.Turn.Runner != turn.ACP {
		if c.Has("turn.acp") {
			return cycle.Kinds{}, c.At(splitKey("turn.acp"), `remove it; other runners use [turn.permissions], and runner = "api" uses [api.tools]`, `can only be used with runner = "acp"`)
		}
		return cycle.Kinds{}, nil
	}
	for _, cause := range []struct {
		name  string
		kinds []string
	}{{"operator", s.Operator}, {"peer", s.Peer}, {"event", s.Event}, {"task", s.Task}, {"self", s.Self}} {
		for _, kind := range cause.kinds {
			if all := turn.ToolKinds(); !slices.Contains(all, kind) {
				hint := terminal.DidYouMean(kind, all, "the tool kinds are "+strings.Join(all, ", "))
				return cycle.Kinds{}, c.At(splitKey("turn.acp."+cause.name), hint, "%q is not a tool kind", kind)
			}
		}
	}
	for name := range s.LowOptions {
		if _, usual := s.Options[name]; !usual {
			hint := fmt.Sprintf("set %s in options too: otherwise a session keeps the low value when there is money again", name)
			return cycle.Kinds{}, c.At(splitKey("turn.acp.low_options."+name), hint, "has no normal value in options")
		}
	}
	kinds := cycle.Kinds{Operator: s.Operator, Peer: s.Peer, Event: s.Event, Task: s.Task, Self: s.Self}
	if !c.Has("turn.acp.operator") {
		kinds.Operator = slices.Clone(readingKinds)
	}
	if !c.Has("turn.acp.peer") {
		kinds.Peer = slices.Clone(readingKinds)
	}
	if !c.Has("turn.acp.task") {
		kinds.Task = kinds.Operator
	}
	if !c.Has("turn.acp.event") {
		kinds.Event = kinds.Peer
	}
	if !c.Has("turn.acp.self") {
		kinds.Self = kinds.Operator
	}
	return kinds, nil
}

// wireSandbox wires turn.sandbox and [turn.box]. It returns nil without a sandbox.
func (c *Config) wireSandbox(self string) (*turn.Sandbox, error) {
	t := c.File.Turn
	if err := c.oneOf("turn.sandbox", t.Sandbox, "", turn.Bwrap); err != nil {
		return nil, err
	}
	if t.Sandbox == "" {
		if c.Has("turn.box") {
			return nil, c.At(splitKey("turn.box"), `set sandbox = "bwrap" in [turn], or remove it`, "can only be used with a sandbox")
		}
		return nil, nil
	}
	if t.Runner == turn.API {
		return nil, c.At(splitKey("turn.sandbox"), "remove it; the built-in loop always runs programs in a sandbox, see [api.exec]", `has no effect with runner = "api"`)
	}
	if err := c.checkWorkdir(`sandbox = "bwrap"`); err != nil {
		return nil, err
	}
	s := &turn.Sandbox{Network: t.Box.Network}
	for _, path := range t.Box.Read {
		if err := c.checkGranted("turn.box.read", c.Resolve(path)); err != nil {
			return nil, err
		}
		s.Read = append(s.Read, c.Resolve(path))
	}
	for _, path := range t.Box.Write {
		if err := c.checkGranted("turn.box.write", c.Resolve(path)); err != nil {
			return nil, err
		}
		if contains(c.Resolve(path), self) {
			return nil, c.At(splitKey("turn.box.write"), "use a folder with only the files the agent works on", "%s contains %s, which every poll runs", c.Resolve(path), self)
		}
		s.Write = append(s.Write, c.Resolve(path))
	}
	return s, nil
}
