package commands

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/cycle"
)

// agents loads the agents that a command line names.
type agents struct {
	loader *config.Loader
	out    *terminal.Output
	loaded *[]*cycle.Agent // agents loaded in this run
}

// configPath returns the path from --config, or the configuration of the agent from -a, or else
// the default configuration.
func (l agents) configPath(c *cli.Context) (string, error) {
	flag := c.String("config")
	if c.IsSet("agent") {
		if c.IsSet("config") {
			return "", terminal.Usagef("use one of them", "--config names an agent, and so does -a %s", c.String("agent"))
		}
		return l.loader.FindHandle(c.Context, c.String("agent"))
	}
	if flag == "" && c.IsSet("config") {
		// An unset variable in a script must not select another agent.
		return "", terminal.Usagef("", "--config is empty: name a file")
	}
	return l.loader.Find(flag)
}

// load loads the agent that the command line names (see configPath).
func (l agents) load(c *cli.Context) (*cycle.Agent, error) {
	if _, boxed := relayedTurnOf(l.loader); boxed && !c.IsSet("config") && !c.IsSet("agent") {
		err := fmt.Errorf("%s is not for an agent in its box: it needs the configuration and the state, which are not there", c.Command.HelpName)
		return nil, terminal.WithHint(coded(codeNotAllowed, err), "`"+name+" --help` lists the commands for the agent; ask your operator for anything else")
	}
	path, err := l.configPath(c)
	if err != nil {
		return nil, err
	}
	a, err := l.loader.Load(path)
	if err == nil && l.loaded != nil {
		*l.loaded = append(*l.loaded, a)
	}
	return a, err
}

// loadInside loads the agent, and returns the turn that called this command.
func (l agents) loadInside(c *cli.Context) (*cycle.Agent, cycle.Inside, error) {
	in, err := l.parseInside(c)
	if err != nil {
		return nil, in, err
	}
	a, err := l.load(c)
	return a, in, err
}

// parseInside returns the turn that called this command.
func (l agents) parseInside(c *cli.Context) (cycle.Inside, error) {
	in, err := parseTurn(l.loader.Env("AGENTSTATELOOP_TURN"), l.loader.Env("AGENTSTATELOOP_EPOCH"))
	if err != nil {
		return in, terminal.Usagef("the agent calls it; its turn is in $AGENTSTATELOOP_TURN and $AGENTSTATELOOP_EPOCH",
			"%s works only from inside a turn", c.Command.HelpName)
	}
	return in, nil
}

// parseTurn reads the id of a turn and its epoch.
func parseTurn(id, epoch string) (cycle.Inside, error) {
	n, err := strconv.ParseUint(epoch, 10, 64)
	if id == "" || err != nil {
		return cycle.Inside{}, terminal.Usagef("`inbox next` prints both", "%q %q are not a turn and its epoch", id, epoch)
	}
	return cycle.Inside{TurnID: id, Epoch: n}, nil
}

// loadNamed loads the agents that the arguments name: configurations, and folders with *.toml
// files. Without an argument it calls load. It reports and skips a file of a folder that is not
// an agent; a named file must be an agent. A handle must not occur twice.
func (l agents) loadNamed(c *cli.Context) ([]*cycle.Agent, error) {
	if c.NArg() == 0 {
		a, err := l.load(c)
		return []*cycle.Agent{a}, err
	}
	var all []*cycle.Agent
	for _, arg := range c.Args().Slice() {
		found, err := l.loadPath(arg)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, distinct(all)
}

// loadPath loads a configuration, or the configurations of a folder.
func (l agents) loadPath(path string) ([]*cycle.Agent, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		a, err := l.loader.Load(path)
		return []*cycle.Agent{a}, err
	}
	return l.loadFolder(path)
}

// loadFolder loads the agents of a folder, at least one.
func (l agents) loadFolder(dir string) ([]*cycle.Agent, error) {
	files, err := filepath.Glob(filepath.Join(config.QuoteGlob(dir), "*.toml"))
	if err != nil {
		return nil, err
	}
	var all []*cycle.Agent
	for _, file := range files {
		a, err := l.loader.Load(file)
		if err != nil {
			l.out.Warn("left out: %v", err)
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
func (l agents) neighbours(a *cycle.Agent) ([]*cycle.Agent, error) {
	all, err := l.loadFolder(filepath.Dir(a.Config))
	if err != nil {
		return []*cycle.Agent{a}, nil // the file of a has another extension, and a is alone
	}
	all = slices.DeleteFunc(all, func(b *cycle.Agent) bool { return b.Handle == a.Handle })
	all = append([]*cycle.Agent{a}, all...)
	return all, distinct(all)
}

// neighbour returns the agent with that handle whose configuration is in the same folder as a's,
// or nil. It ignores every other file there.
func (l agents) neighbour(a *cycle.Agent, handle string) *cycle.Agent {
	files, err := filepath.Glob(filepath.Join(config.QuoteGlob(filepath.Dir(a.Config)), "*.toml"))
	if err != nil {
		return nil
	}
	for _, file := range files {
		if b, err := l.loader.Load(file); err == nil && b.Handle == handle {
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
			return &config.Error{Path: a.Config, Key: "agent.handle", Text: fmt.Sprintf("@%s is in %s already", a.Handle, other)}
		}
		file[a.Handle] = a.Config
	}
	return nil
}
