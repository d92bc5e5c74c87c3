package commands

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
)

// configPath returns the path from --config, or the configuration of the agent from -a, or else
// the default configuration.
func (c *call) configPath() (string, error) {
	hasConfig := c.given(&c.global.config) != ""
	if c.given(&c.global.agent) != "" {
		if hasConfig {
			return "", terminal.Usagef("use only one of them", "--config and -a %s both name an agent", c.global.agent)
		}
		return c.loader.FindHandle(c.ctx, c.global.agent)
	}
	if c.global.config == "" && hasConfig {
		// An unset variable in a script must not select another agent.
		return "", terminal.Usagef("", "--config needs a file")
	}
	return c.loader.Find(c.global.config)
}

// programFor returns the beginning of a command line for the agent of a configuration: our program,
// and --config unless the configuration is the default.
func (c *call) programFor(path string) string {
	if found, err := c.loader.Find(""); err == nil && found == path {
		return name
	}
	return name + " --config " + quotedForShell(path)
}

// namesAgent reports whether -a or --config is on the command line.
func (c *call) namesAgent() bool { return c.given(&c.global.config, &c.global.agent) != "" }

// load loads the agent that the command line names (see configPath). The run closes it. If another
// host acts for the agent, only some commands work (see worksOnStandby).
func (c *call) load() (*cycle.Agent, error) {
	a, err := c.open()
	if err != nil {
		return a, err
	}
	c.loaded = append(c.loaded, a)
	return a, c.checkActs(a)
}

// open is load for a caller that closes the agent itself.
func (c *call) open() (*cycle.Agent, error) {
	if _, boxed := relayedTurnOf(c.loader); boxed && !c.namesAgent() {
		err := fmt.Errorf("%s does not work in the agent's sandbox: the configuration and the state are outside", c.helpName())
		return nil, terminal.WithHint(coded(codeNotAllowed, err), "`"+name+" --help` lists the commands for the agent; ask your operator for anything else")
	}
	path, err := c.configPath()
	if err != nil {
		return nil, err
	}
	return c.loader.Load(path)
}

// insideTurn reports whether an agent calls the command in its turn.
func (c *call) insideTurn() bool { return c.loader.Env("AGENTSTATELOOP_TURN") != "" }

// inside returns the turn that called this command.
func (c *call) inside() (cycle.Inside, error) {
	in, err := parseTurn(c.loader.Env("AGENTSTATELOOP_TURN"), c.loader.Env("AGENTSTATELOOP_EPOCH"))
	if err != nil {
		return in, terminal.Usagef("the agent calls it in its turn, which $AGENTSTATELOOP_TURN and $AGENTSTATELOOP_EPOCH identify",
			"%s works only inside a turn", c.helpName())
	}
	return in, nil
}

// parseTurn reads the id of a turn and its epoch.
func parseTurn(id, epoch string) (cycle.Inside, error) {
	n, err := strconv.ParseUint(epoch, 10, 64)
	if id == "" || err != nil {
		return cycle.Inside{}, terminal.Usagef("`inbox next` prints both", "%q %q is not a turn and its epoch", id, epoch)
	}
	return cycle.Inside{TurnID: id, Epoch: n}, nil
}

// loadNamed loads the agents that the arguments name: configurations, and folders with *.toml
// files. Without an argument it calls load. It reports and skips a file of a folder that is not
// an agent; a named file must be an agent. A handle must not occur twice.
func (c *call) loadNamed() ([]*cycle.Agent, error) {
	if len(c.args) == 0 {
		a, err := c.load()
		return []*cycle.Agent{a}, err
	}
	var all []*cycle.Agent
	for _, arg := range c.args {
		found, err := c.loadPath(arg)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, distinct(all)
}

// loadPath loads a configuration, or the configurations of a folder.
func (p *program) loadPath(path string) ([]*cycle.Agent, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		a, err := p.loader.Load(path)
		return []*cycle.Agent{a}, err
	}
	return p.loadFolder(path)
}

// loadFolder loads the agents of a folder, at least one.
func (p *program) loadFolder(dir string) ([]*cycle.Agent, error) {
	files, err := filepath.Glob(filepath.Join(config.QuoteGlob(dir), "*.toml"))
	if err != nil {
		return nil, err
	}
	var all []*cycle.Agent
	for _, file := range files {
		a, err := p.loader.Load(file)
		if err != nil {
			p.out.Warn("skipped: %v", err)
			continue
		}
		all = append(all, a)
	}
	if len(all) == 0 {
		return nil, terminal.Usagef("put each agent's configuration there, as NAME.toml", "no agent found in %s", dir)
	}
	return all, nil
}

// neighbours loads the agents whose configurations are in the same folder as a's. a comes first.
func (p *program) neighbours(a *cycle.Agent) ([]*cycle.Agent, error) {
	all, err := p.loadFolder(filepath.Dir(a.Config))
	if err != nil {
		return []*cycle.Agent{a}, nil // the file of a has another extension, and a is alone
	}
	all = slices.DeleteFunc(all, func(b *cycle.Agent) bool { return b.Handle == a.Handle })
	all = append([]*cycle.Agent{a}, all...)
	return all, distinct(all)
}

// neighbour returns the agent with that handle whose configuration is in the same folder as a's,
// or nil. It ignores every other file there.
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

// distinct refuses two agents with the same handle.
func distinct(all []*cycle.Agent) error {
	file := map[string]string{}
	for _, a := range all {
		if other, taken := file[a.Handle]; taken {
			return &config.Error{Path: a.Config, Key: "agent.handle", Text: fmt.Sprintf("@%s is already the handle in %s", a.Handle, other)}
		}
		file[a.Handle] = a.Config
	}
	return nil
}
