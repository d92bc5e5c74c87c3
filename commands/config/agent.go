package config

import (
	"path/filepath"
	"strings"

	"agentstateloop/commands/terminal"
	"agentstateloop/state"
)

func (c *Config) checkHandle() error {
	handle := c.File.Agent.Handle
	if handle == "" {
		return c.Wrong("agent.handle", "is missing: give your agent a name, such as \"goulard3120\"")
	}
	if !state.ValidHandle(handle) {
		return c.Wrong("agent.handle", "%q is not a valid handle: use a-z, 0-9 and -, at most 32, without the @", handle)
	}
	return nil
}

// stateFolder is where the state directories of all agents of the user are.
func (c *Config) stateFolder() string {
	return filepath.Join(c.home, ".local", "state", terminal.Program)
}

func (c *Config) stateDir() string {
	if c.File.Agent.StateDir != "" {
		return c.Resolve(c.File.Agent.StateDir)
	}
	return filepath.Join(c.stateFolder(), c.File.Agent.Handle)
}

// operators returns the addresses of the operator, at least one.
func (c *Config) operators(own string) ([]string, error) {
	const key = "agent.operator"
	var addresses []string
	for _, text := range c.File.Agent.Operator {
		address, err := c.address(key, text)
		if err != nil {
			return nil, err
		}
		if strings.EqualFold(address, own) {
			return nil, c.Wrong(key, "%s is the agent's own address (mail.address): give the agent a mailbox of its own, so that its mail and yours can be told apart", address)
		}
		addresses = append(addresses, address)
	}
	if len(addresses) == 0 {
		return nil, c.Wrong(key, `is missing: your own address, such as ["you@example.com"]`)
	}
	return addresses, nil
}
