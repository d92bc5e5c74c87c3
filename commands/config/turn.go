package config

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/turn"
)

// APICommand is the hidden subcommand that runs our own loop. Package turn starts it as the agent
// of a turn.
const APICommand = "__react"

// The values of [turn] conversation: the operator has a single conversation, or one per mail
// thread.
const (
	ConversationOperator = "operator"
	ConversationThread   = "thread"
)

// maxCollect limits turn.collect, the time a sender must be silent before their messages get a
// turn.
const maxCollect = 5 * time.Minute

// maxSelfTurns limits how many turns in a row an agent may cause itself.
const maxSelfTurns = 1000

// rights returns the arguments of [turn.permissions]. Turns that the agent planned in an operator's
// turn, and prompts of the clock, have the rights of the operator's turns, unless self or task is
// set.
func (c *Config) rights() cycle.Rights {
	p := c.File.Turn.Permissions
	rights := cycle.Rights{Operator: p.Operator, Peer: p.Peer, Task: p.Task, Self: p.Self, Event: p.Event, Summary: p.Summary}
	if !c.Has("turn.permissions.event") {
		rights.Event = p.Peer
	}
	if !c.Has("turn.permissions.self") {
		rights.Self = p.Operator
	}
	if !c.Has("turn.permissions.summary") && len(c.File.Prompts) == 0 {
		rights.Summary = p.Task // for compatibility: turns without a message used to be summaries only
	}
	if !c.Has("turn.permissions.task") {
		rights.Task = p.Operator
	}
	return rights
}

// wireTurn wires [turn]. It returns nil with runner = "none".
func (l *Loader) wireTurn(c *Config, self string) (*turn.Config, error) {
	t := c.File.Turn
	if t.MaxAttempts < 1 {
		return nil, c.Wrong("turn.max_attempts", "must be at least 1")
	}
	if err := c.oneOf("turn.conversation", t.Conversation, ConversationOperator, ConversationThread); err != nil {
		return nil, err
	}
	if time.Duration(t.Collect) > maxCollect {
		return nil, c.Wrong("turn.collect", "must be at most %v", maxCollect)
	}
	if t.SelfTurns < 0 || t.SelfTurns > maxSelfTurns {
		return nil, c.Wrong("turn.self_turns", "must be between 0 and %d", maxSelfTurns)
	}
	if t.Runner == "none" {
		_, err := c.offersTools()
		return nil, err
	}
	if err := c.checkLow(); err != nil {
		return nil, err
	}
	if err := l.checkRunner(c); err != nil {
		return nil, err
	}
	for key, value := range t.Env {
		if err := c.checkVariable("turn.env", key, value); err != nil {
			return nil, err
		}
		if secretName.Get().MatchString(key) {
			l.Secrets.Learn(c.Path+" env "+key, value)
		}
	}
	mcp, err := c.offersTools()
	if err != nil {
		return nil, err
	}
	if err := c.checkApprove(mcp); err != nil {
		return nil, err
	}
	sandbox, err := c.wireSandbox(self)
	if err != nil {
		return nil, err
	}
	workdir := filepath.Dir(c.Path)
	if t.Workdir != "" {
		workdir = c.Resolve(t.Workdir)
	}
	command, env := c.turnCommand(t.Command), t.Env
	if t.Runner == turn.API {
		command, env = []string{self, "--config", c.Path, APICommand}, l.apiEnv(c)
	}
	return &turn.Config{
		Runner:  t.Runner,
		Command: command,
		Workdir: workdir,
		Timeout: time.Duration(t.Timeout),
		Silence: time.Duration(t.Silence),
		Linger:  time.Duration(t.Linger),
		Settle:  time.Duration(t.Settle),
		Env:     env,
		Box:     sandbox,
		MCP:     mcp,
		Approve: t.Approve,
		Options: t.ACP.Options,
		Low:     turn.Low{Command: c.turnCommand(t.LowCommand), Args: t.LowArgs, Options: t.ACP.LowOptions, Model: c.lowModel()},
		Self:    self,
		Version: l.Version,
		Secrets: l.Secrets,
	}, nil
}

// offersTools reports whether to announce the server of our tools to the agent's program. By
// default it does so for runners that can start the server; mcp overrides that.
func (c *Config) offersTools() (bool, error) {
	t := c.File.Turn
	if startsTools(t.Runner) {
		return t.MCP || !c.Has("turn.mcp"), nil
	}
	if !t.MCP {
		return false, nil
	}
	hint := "remove it; add `agentstateloop mcp` to your program's configuration as a stdio server"
	switch t.Runner {
	case turn.API:
		hint = "remove it; [api.tools] sets the tools of the built-in loop"
	case "none":
		hint = "remove it; such an agent uses `agentstateloop inbox`"
	}
	return false, c.At(splitKey("turn.mcp"), hint, `can only be used with runner = "claude", "codex", "gemini" or "acp"`)
}

// checkApprove checks [turn] approve.
func (c *Config) checkApprove(mcp bool) error {
	const key = "turn.approve"
	t := c.File.Turn
	switch {
	case !t.Approve:
		return nil
	case t.Runner != turn.Claude:
		return c.At(splitKey(key), `remove it; with runner = "acp" the agent asks without it (see docs/approve.md)`, `can only be used with runner = "claude"`)
	case !mcp:
		return c.At(splitKey(key), "remove mcp = false, or approve", "can only be used with mcp, which is false")
	}
	for _, arg := range t.Command {
		if strings.HasPrefix(arg, "--permission-prompt-tool") {
			return c.At(splitKey(key), "remove approve, or the argument from command", "command already contains %s", arg)
		}
	}
	return nil
}

// lowModel returns the model that runner "api" uses while money is short, or "" if it is the usual
// one.
func (c *Config) lowModel() string {
	s := c.File.API
	if c.File.Turn.Runner != turn.API || s.LowModel == s.Model {
		return ""
	}
	return s.LowModel
}

// checkLow checks the settings that apply while money is short.
func (c *Config) checkLow() error {
	t := c.File.Turn
	switch {
	case len(t.LowCommand) > 0 && t.Runner != turn.Exec && t.Runner != turn.ACP:
		return c.At(splitKey("turn.low_command"), "use low_args, or low_model in [api] with runner = \"api\"", `can only be used with runner = "exec" or "acp"`)
	case len(t.LowArgs) > 0 && t.Runner == turn.API:
		return c.At(splitKey("turn.low_args"), "remove it; low_model in [api] names the model", `has no effect with runner = "api"`)
	case len(t.LowArgs) > 0 && len(t.LowCommand) > 0:
		return c.At(splitKey("turn.low_args"), "keep one of them", "low_command and low_args cannot both be set")
	}
	return nil
}

// checkRunner checks that the runner has all it needs.
func (l *Loader) checkRunner(c *Config) error {
	t := c.File.Turn
	switch t.Runner {
	case turn.Claude, turn.Codex, turn.Gemini:
		return nil
	case turn.Exec:
		if len(t.Command) == 0 {
			return c.Missing("turn.command", `set the program that answers, such as ["./reply.sh"], or runner = "none" to read messages with `+"`agentstateloop inbox`")
		}
		return nil
	case turn.ACP:
		if len(t.Command) == 0 {
			return c.Missing("turn.command", `set a program that speaks the Agent Client Protocol on standard input and output, such as ["gemini", "--acp"]`)
		}
		return nil
	case turn.API:
		if len(t.Command) > 0 {
			return c.At(splitKey("turn.command"), "remove it; [api] names the model", `has no effect with runner = "api"`)
		}
		_, err := l.API(c)
		return err
	}
	return c.Wrong("turn.runner", `%q is not one of: %s`, t.Runner, strings.Join(Runners(), ", "))
}

// Runners returns the values of turn.runner.
func Runners() []string {
	return []string{turn.Exec, turn.Claude, turn.Codex, turn.Gemini, turn.ACP, turn.API, "none"}
}

// turnCommand returns a command of [turn] with "~" resolved. It keeps a relative path, because the
// runner resolves it in the agent's folder.
func (c *Config) turnCommand(command []string) []string {
	command = slices.Clone(command)
	if len(command) > 0 && strings.HasPrefix(command[0], "~/") {
		command[0] = c.Resolve(command[0])
	}
	return command
}

// apiEnv returns turn.env for our own loop. It adds the environment variables of the API key and of
// the tool servers' tokens, which no other agent gets.
func (l *Loader) apiEnv(c *Config) map[string]string {
	env := maps.Clone(c.File.Turn.Env)
	for _, name := range c.SecretVariables() {
		if env == nil {
			env = map[string]string{}
		}
		if value := l.Env(name); value != "" || env[name] == "" {
			env[name] = value
		}
	}
	return env
}

// SecretVariables returns the names of the environment variables that only the built-in loop gets,
// not its tools.
func (c *Config) SecretVariables() []string {
	names := []string{c.File.API.KeyEnv}
	for _, f := range c.File.Turn.Fallback {
		names = append(names, f.KeyEnv)
	}
	for _, name := range slices.Sorted(maps.Keys(c.File.Tools)) {
		names = append(names, c.File.Tools[name].MCP.TokenEnv)
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// checkWorkdir rejects a workdir that contains one of the agent's own files: the configuration,
// secrets, state, prompt templates and programs. The model's file tools, and an agent in a sandbox,
// can read and write everything in workdir.
func (c *Config) checkWorkdir(reason string) error {
	const hint = `use a folder such as "~/agents/goulard" that contains only the files the agent works on`
	if c.File.Turn.Workdir == "" {
		return c.At(splitKey("turn.workdir"), hint, "is missing, but %s requires it", reason)
	}
	if ownFile := c.ownFileIn(c.Resolve(c.File.Turn.Workdir)); ownFile != "" {
		return c.At(splitKey("turn.workdir"), hint, "contains %s, which the agent could read and change", ownFile)
	}
	if program := c.serverProgramIn(c.Resolve(c.File.Turn.Workdir)); program != "" {
		return c.At(splitKey("turn.workdir"), hint, "contains %s, which the agent could read and change", program)
	}
	return nil
}

// ownFileIn returns one of the agent's own files that is dir or inside dir, or "".
func (c *Config) ownFileIn(dir string) string {
	mail, mesh := c.File.Mail, c.File.Mesh
	own := append(c.ownPrograms(), c.serverSecrets()...)
	for _, f := range c.File.Turn.Fallback {
		own = append(own, f.KeyFile)
	}
	for _, h := range c.File.Hooks {
		own = append(own, h.TokenFile, h.SecretFile)
	}
	for _, kept := range append([]string{
		c.Path, cmp.Or(c.File.Agent.StateDir, c.stateFolder()), c.File.API.KeyFile, mesh.TokenFile, mesh.KeyFile, mail.IMAP.PasswordFile, mail.SMTP.PasswordFile,
		mail.IMAP.OAuth2.ClientSecretFile, mail.IMAP.OAuth2.RefreshTokenFile, c.File.Turn.Prompts,
	}, own...) {
		if kept != "" && contains(dir, c.Resolve(kept)) {
			return c.Resolve(kept)
		}
	}
	return ""
}

// ownPrograms returns the paths of programs and schemas in the configuration. It omits programs
// that the system looks up in PATH.
func (c *Config) ownPrograms() []string {
	mail, mesh := c.File.Mail, c.File.Mesh
	commands := [][]string{
		c.File.API.KeyCommand, mesh.TokenCommand, mesh.KeyCommand, mail.IMAP.PasswordCommand, mail.SMTP.PasswordCommand,
		mail.IMAP.TokenCommand, mail.SMTP.TokenCommand, mail.IMAP.OAuth2.ClientSecretCommand,
		c.File.Turn.Summary, {c.File.Schedule.Crontab},
	}
	for _, f := range c.File.Turn.Fallback {
		commands = append(commands, f.KeyCommand)
	}
	var paths []string
	for _, name := range slices.Sorted(maps.Keys(c.File.Tools)) {
		commands = append(commands, c.File.Tools[name].Command)
		paths = append(paths, c.File.Tools[name].Schema)
	}
	for _, h := range c.File.Hooks {
		commands = append(commands, h.Command, h.TokenCommand, h.SecretCommand)
	}
	for _, command := range commands {
		if len(command) > 0 && strings.Contains(command[0], "/") {
			paths = append(paths, command[0])
		}
	}
	return paths
}

// contains reports whether path is dir or inside dir. It follows symbolic links.
func contains(dir, path string) bool {
	for _, p := range []*string{&dir, &path} {
		if real, err := filepath.EvalSymlinks(*p); err == nil {
			*p = real
		}
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}
