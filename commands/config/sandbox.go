package config

import (
	"agentstateloop/turn"
)

// wireSandbox wires turn.sandbox and [turn.box]. It returns nil without a sandbox.
func (c *Config) wireSandbox(self string) (*turn.Sandbox, error) {
	t := c.File.Turn
	if err := c.oneOf("turn.sandbox", t.Sandbox, "", turn.Bwrap); err != nil {
		return nil, err
	}
	if t.Sandbox == "" {
		if c.Has("turn.box") {
			return nil, c.At(dotted("turn.box"), `set sandbox = "bwrap" in [turn], or remove it`, "has no effect without a sandbox")
		}
		return nil, nil
	}
	if t.Runner == turn.API {
		return nil, c.At(dotted("turn.sandbox"), "remove it; the built-in loop runs each program in a box anyway, see [api.exec]", `has no effect with runner = "api"`)
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
		if below(c.Resolve(path), self) {
			return nil, c.At(dotted("turn.box.write"), "name a folder that holds only what the agent works on", "%s contains %s, which every poll runs", c.Resolve(path), self)
		}
		s.Write = append(s.Write, c.Resolve(path))
	}
	return s, nil
}
