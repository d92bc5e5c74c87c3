package commands

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
)

// agent loads the configuration that --config and its like name, and wires an
// agent from it. What is wrong in the file is a *config.Error.
func (p *program) agent(c *cli.Context) (*cycle.Agent, error) {
	path, err := p.configPath(c)
	if err != nil {
		return nil, err
	}
	return p.loader.Load(path)
}

// configPath finds the configuration that --config and its like name.
func (p *program) configPath(c *cli.Context) (string, error) {
	flag := c.String("config")
	if flag == "" && c.IsSet("config") {
		// An unset variable in a script must not find another agent.
		return "", terminal.Usagef("", "--config names no file")
	}
	return p.loader.Find(flag)
}

// agents wires the agents that the positional arguments name: configurations,
// and folders of them, whose *.toml are taken. Without an argument it is the
// one agent that agent gives. In a folder, what is no agent is told of and left
// out; a file that was named must be one. No handle may come twice.
func (p *program) agents(c *cli.Context) ([]*cycle.Agent, error) {
	if c.NArg() == 0 {
		a, err := p.agent(c)
		return []*cycle.Agent{a}, err
	}
	var all []*cycle.Agent
	for _, arg := range c.Args().Slice() {
		found, err := p.agentsAt(arg)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, distinct(all)
}

func (p *program) agentsAt(path string) ([]*cycle.Agent, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		a, err := p.loader.Load(path)
		return []*cycle.Agent{a}, err
	}
	return p.agentsIn(path)
}

// agentsIn wires the agents of a folder, at least one.
func (p *program) agentsIn(dir string) ([]*cycle.Agent, error) {
	files, err := filepath.Glob(filepath.Join(config.QuoteGlob(dir), "*.toml"))
	if err != nil {
		return nil, err
	}
	var all []*cycle.Agent
	for _, file := range files {
		a, err := p.loader.Load(file)
		if err != nil {
			p.out.Warn("left out: %v", err)
			continue
		}
		all = append(all, a)
	}
	if len(all) == 0 {
		return nil, terminal.Usagef("put each agent's configuration there, as NAME.toml", "%s holds no agent", dir)
	}
	return all, nil
}

// neighbour is the agent of ours with that handle whose configuration lies
// beside a's; nil if there is none. What else lies there is not its business.
func (p *program) neighbour(a *cycle.Agent, handle string) *cycle.Agent {
	files, err := filepath.Glob(filepath.Join(config.QuoteGlob(filepath.Dir(a.Config)), "*.toml"))
	if err != nil {
		return nil
	}
	for _, file := range files {
		if b, err := p.loader.Load(file); err == nil && b.Handle == handle {
			return b
		}
	}
	return nil
}

func distinct(all []*cycle.Agent) error {
	where := map[string]string{}
	for _, a := range all {
		if other, taken := where[a.Handle]; taken {
			return &config.Error{Path: a.Config, Key: "agent.handle", Text: fmt.Sprintf("@%s is in %s already", a.Handle, other)}
		}
		where[a.Handle] = a.Config
	}
	return nil
}
