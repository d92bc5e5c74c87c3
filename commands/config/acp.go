package config

import (
	"fmt"
	"slices"
	"strings"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
	"agentstateloop/turn"
)

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
			return cycle.Kinds{}, c.At(dotted("turn.acp"), `remove it; what other agents may do is in [turn.permissions], and in [api.tools] for runner = "api"`, `has an effect only with runner = "acp"`)
		}
		return cycle.Kinds{}, nil
	}
	for _, cause := range []struct {
		name  string
		kinds []string
	}{{"operator", s.Operator}, {"peer", s.Peer}, {"event", s.Event}, {"task", s.Task}, {"self", s.Self}} {
		for _, kind := range cause.kinds {
			if all := turn.ToolKinds(); !slices.Contains(all, kind) {
				hint := terminal.DidYouMean(kind, all, "the kinds are "+strings.Join(all, ", "))
				return cycle.Kinds{}, c.At(dotted("turn.acp."+cause.name), hint, "%q is not a kind of tools", kind)
			}
		}
	}
	for name := range s.LowOptions {
		if _, usual := s.Options[name]; !usual {
			hint := fmt.Sprintf("set %s in options too: a session keeps what was chosen, also when money is there again", name)
			return cycle.Kinds{}, c.At(dotted("turn.acp.low_options."+name), hint, "options does not name the usual value")
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
