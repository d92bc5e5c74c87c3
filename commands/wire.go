package commands

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"agentstateloop/commands/terminal"
	"agentstateloop/cron"
	"agentstateloop/cycle"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// messagesAnHour is how many messages the operator gets through in an hour
// before further ones wait (DESIGN 6).
const messagesAnHour = 60

// agent loads the configuration that --config and its like name, and wires an
// agent from it. What is wrong in the file is a *configError.
func (p *program) agent(c *cli.Context) (*cycle.Agent, error) {
	path, err := p.configPath(c)
	if err != nil {
		return nil, err
	}
	return p.load(path)
}

// configPath finds the configuration that --config and its like name.
func (p *program) configPath(c *cli.Context) (string, error) {
	flag := c.String("config")
	if flag == "" && c.IsSet("config") {
		// An unset variable in a script must not find another agent.
		return "", terminal.Usagef("", "--config names no file")
	}
	return p.findConfig(flag)
}

func (p *program) load(path string) (*cycle.Agent, error) {
	home, err := p.home()
	if err != nil {
		return nil, err
	}
	self, err := p.executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	c, err := readConfig(path, home)
	if err != nil {
		return nil, err
	}
	return p.wire(c, self)
}

// wire makes an agent of a configuration, and checks the values on the way.
func (p *program) wire(c *config, self string) (*cycle.Agent, error) {
	a, errs := p.wireParts(c, self)
	if len(errs) > 0 {
		return nil, errs[0]
	}
	return a, nil
}

// wireParts wires what can be wired, and gives what is wrong with the rest: an
// agent that lacks that, or none where there is not even a handle.
func (p *program) wireParts(c *config, self string) (a *cycle.Agent, errs []error) {
	handle := c.file.Agent.Handle
	if handle == "" {
		return nil, []error{c.wrong("agent.handle", "is missing: give your agent a name, such as \"goulard3120\"")}
	}
	if !state.ValidHandle(handle) {
		return nil, []error{c.wrong("agent.handle", "%q is no handle: use a-z, 0-9 and -, at most 32, without the @", handle)}
	}
	keep, err := c.span("agent.keep", c.file.Agent.Keep)
	if err != nil {
		errs = append(errs, err)
	}
	base := filepath.Join(c.home, ".local", "state", name)
	dir := filepath.Join(base, handle)
	if c.file.Agent.StateDir != "" {
		dir = c.resolve(c.file.Agent.StateDir)
	}
	a = &cycle.Agent{
		Handle: handle,
		Config: c.path,
		Store:  &store.Store{Dir: dir, Agent: handle},
		Keep:   keep,
		Self:   []string{self, "--config", c.path},
		Now:    p.now,

		Secrets: &p.secrets,
	}
	network, err := c.span("timing.network_timeout", c.file.Timing.NetworkTimeout)
	if err != nil {
		errs = append(errs, err)
	}
	for _, part := range []func() error{
		func() error { a.Mail, err = p.wireMail(c, network); return err },
		func() error { a.Mesh, err = p.wireMesh(c, network); return err },
		func() error { a.Schedule, err = wireSchedule(c, base, dir, self); return err },
		func() error { a.Turn, err = p.wireTurn(c, self); return err },
		func() error { a.Replies, err = wireReplies(c); return err },
		func() error { return wirePrompt(c, a) },
		func() error { a.Rights = cycle.Rights(c.file.Turn.Permissions); return nil },
		func() error { a.Policy, err = wirePolicy(c, a); return err },
		func() error { a.Policy.Budget, err = wireBudget(c); return err },
		func() error { a.Prices, err = wirePrices(c); return err },
	} {
		if err := part(); err != nil {
			errs = append(errs, err)
		}
	}
	return a, errs
}

// wirePolicy comes last, since it sums up what the other parts are.
func wirePolicy(c *config, a *cycle.Agent) (state.Policy, error) {
	policy := state.Policy{
		Location:    time.Local,
		HasMail:     a.Mail != nil,
		HasMesh:     a.Mesh != nil,
		Keymaster:   c.file.Mesh.Keymaster,
		Peers:       c.file.Mesh.Peers,
		Ack:         a.Replies.Ack != nil,
		QuietPrep:   a.Replies.QuietPrep != nil,
		QuietActive: a.Replies.QuietActive != nil,
		Notices:     c.file.Replies.Notices,
		Working:     c.file.Replies.Working,
		Turns:       a.Turn != nil,
		MaxAttempts: c.file.Turn.MaxAttempts,
		Rate:        messagesAnHour,
	}
	if a.Turn != nil {
		policy.Login = a.Turn.Login()
	}
	if a.Mail != nil {
		policy.Operator = a.Mail.Filter.Operators[0]
		policy.Challenge = a.Mail.Filter.Challenges()
	}
	for _, t := range []struct {
		key  string
		text span
		into *time.Duration
		cron bool // must be an interval of a crontab line
	}{
		{"timing.idle_interval", c.file.Timing.IdleInterval, &policy.IdleInterval, true},
		{"timing.engaged_interval", c.file.Timing.EngagedInterval, &policy.EngagedInterval, true},
		{"timing.prep_timeout", c.file.Timing.PrepTimeout, &policy.PrepTimeout, false},
		{"timing.active_timeout", c.file.Timing.ActiveTimeout, &policy.ActiveTimeout, false},
		{"timing.cooldown", c.file.Timing.Cooldown, &policy.Cooldown, false},
		{"turn.timeout", c.file.Turn.Timeout, &policy.TurnTimeout, false},
	} {
		d, err := c.span(t.key, t.text)
		if err != nil {
			return policy, err
		}
		if t.cron {
			if _, err := cron.Expr(d); err != nil {
				return policy, c.wrong(t.key, "%v", err)
			}
		}
		*t.into = d
	}
	return policy, nil
}

func (p *program) wireTurn(c *config, self string) (*turn.Config, error) {
	t := c.file.Turn
	timeout, err := c.span("turn.timeout", t.Timeout)
	if err != nil {
		return nil, err
	}
	if t.MaxAttempts < 1 {
		return nil, c.wrong("turn.max_attempts", "must be 1 or more")
	}
	linger, err := c.span("turn.linger", t.Linger)
	if err != nil {
		return nil, err
	}
	var silence time.Duration // 0: off
	if t.Silence != "" {
		if silence, err = c.span("turn.silence", t.Silence); err != nil {
			return nil, err
		}
	}
	switch t.Runner {
	case "none":
		return nil, nil
	case turn.Claude, turn.Codex, turn.Gemini:
	case turn.Exec:
		if len(t.Command) == 0 {
			return nil, c.at([]string{"turn", "command"}, `or set runner = "none" in [turn], and read messages with inbox`,
				`is missing: name the program that answers, such as ["./reply.sh"]`)
		}
	case turn.API:
		if len(t.Command) > 0 {
			return nil, c.wrong("turn.command", `runs nothing: with runner = "api" the loop is in this program, and [api] says which model it asks`)
		}
		if _, err := p.wireAPI(c); err != nil {
			return nil, err
		}
	default:
		return nil, c.wrong("turn.runner", `%q is not built: use "exec", "claude", "codex", "gemini", "api" or "none"`, t.Runner)
	}
	for key, value := range t.Env {
		if key == "" || strings.ContainsAny(key, "=\x00") {
			return nil, c.wrong("turn.env", "%q is no name of a variable", key)
		}
		if namesSecret.MatchString(key) {
			p.secrets.Learn(c.path+" env "+key, value)
		}
	}
	workdir := filepath.Dir(c.path)
	if t.Workdir != "" {
		workdir = c.resolve(t.Workdir)
	}
	command, env := slices.Clone(t.Command), t.Env
	if t.Runner == turn.API {
		command, env = []string{self, "--config", c.path, reactCommand}, p.apiEnv(c)
	}
	if len(command) > 0 && strings.HasPrefix(command[0], "~/") {
		command[0] = c.resolve(command[0])
	}
	return &turn.Config{
		Runner:  t.Runner,
		Command: command,
		Workdir: workdir,
		Timeout: timeout,
		Silence: silence,
		Linger:  linger,
		Env:     env,
		Self:    self,
		Version: version(),
		Secrets: &p.secrets,
	}, nil
}

// wireSchedule takes the folder of all agents of the user and that of this one.
func wireSchedule(c *config, base, dir, self string) (cycle.Schedule, error) {
	s := c.file.Schedule
	if err := c.oneOf("schedule.mode", s.Mode, cycle.ModeCrontab, cycle.ModeFixed, cycle.ModeNone); err != nil {
		return cycle.Schedule{}, err
	}
	command := s.Crontab
	if command == "" {
		return cycle.Schedule{}, c.wrong("schedule.crontab", `names no program: "crontab" is the usual one`)
	}
	if strings.ContainsRune(command, '/') {
		command = c.resolve(command)
	}
	var linger time.Duration // 0: off
	if s.Linger != "" {
		var err error
		if linger, err = c.span("schedule.linger", s.Linger); err != nil {
			return cycle.Schedule{}, err
		}
	}
	return cycle.Schedule{
		Mode: s.Mode,
		Table: cron.Table{
			Command: command,
			Lock:    filepath.Join(base, "crontab.lock"),
			Backup:  filepath.Join(dir, "crontab-backups"),
		},
		Binary: self,
		Linger: linger,
	}, nil
}

// span reads a length of time.
func (c *config) span(key string, s span) (time.Duration, error) {
	d, err := terminal.ParseDuration(string(s))
	if err != nil {
		return 0, c.wrong(key, "%q %v", s, err)
	}
	return d, nil
}

// oneOf checks a value that must be one of a few.
func (c *config) oneOf(key, value string, choices ...string) error {
	if slices.Contains(choices, value) {
		return nil
	}
	return c.wrong(key, "%q is not one of: %s", value, strings.Join(choices, ", "))
}

// resolve makes a path absolute: "~" is the user's home from the user
// database, and a relative path is relative to the configuration file.
func (c *config) resolve(path string) string {
	if path == "~" || strings.HasPrefix(path, "~/") {
		return filepath.Join(c.home, path[1:])
	}
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(filepath.Dir(c.path), path)
}
