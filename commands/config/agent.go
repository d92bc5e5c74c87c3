package config

import (
	"path/filepath"
	"strings"

	"agentstateloop/commands/terminal"
	"agentstateloop/mail"
	"agentstateloop/state"
)

// handleHint is the hint for an invalid handle.
const handleHint = "use at most 32 of a-z, 0-9 and -, without the @"

// checkHandle checks the agent's handle.
func (c *Config) checkHandle() error {
	handle := c.File.Agent.Handle
	if handle == "" {
		return c.Missing("agent.handle", `give your agent a name, such as handle = "goulard3120"`)
	}
	if !state.ValidHandle(handle) {
		return c.At(dotted("agent.handle"), handleHint, "%q is not a valid handle", handle)
	}
	return nil
}

// stateFolder returns the folder of the default state directories of all the user's agents.
func (c *Config) stateFolder() string {
	return filepath.Join(c.home, ".local", "state", terminal.Program)
}

// stateDir returns the agent's state directory.
func (c *Config) stateDir() string {
	if c.File.Agent.StateDir != "" {
		return c.Resolve(c.File.Agent.StateDir)
	}
	return filepath.Join(c.stateFolder(), c.File.Agent.Handle)
}

// roots returns the agent's cache of the system's root certificates.
func (c *Config) roots() *mail.Roots {
	if c.systemRoots == nil {
		c.systemRoots = mail.NewRoots(filepath.Join(c.stateDir(), "roots"))
	}
	return c.systemRoots
}

// operators returns the operator's addresses, at least one. own is the agent's address.
func (c *Config) operators(own string) ([]string, error) {
	const key = "agent.operator"
	var addresses []string
	for _, text := range c.File.Agent.Operator {
		address, err := c.address(key, text)
		if err != nil {
			return nil, err
		}
		if strings.EqualFold(address, own) {
			return nil, c.At(dotted(key), "give the agent a mailbox of its own", "%s is the agent's own address (mail.address)", address)
		}
		addresses = append(addresses, address)
	}
	if len(addresses) == 0 {
		return nil, c.Missing(key, `add your own email address, such as operator = ["you@example.com"]`)
	}
	return addresses, nil
}
