package commands

import (
	"cmp"
	"context"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentstateloop/turn/react"
)

// The providers of [api]: the two APIs that are spoken.
const (
	providerAnthropic = "anthropic"
	providerOpenAI    = "openai"
)

// usualModel is what init suggests of Anthropic's.
const usualModel = "claude-sonnet-4-5"

const (
	toolPatience  = time.Minute // for exec, and for a tool that has no timeout of its own
	longestSchema = 64 << 10    // bytes
	smallWindow   = 4096        // tokens; below, no conversation is to be had
)

// api is what [api] and [tools] come to.
type api struct {
	url, provider string
	key           func(context.Context) (string, error) // nil: the server wants none
	programs      []react.Program                       // without what only a turn knows
}

// inference is an API that can also be asked which models it has.
type inference interface {
	react.Model
	Models(context.Context) ([]string, error)
}

// wireAPI checks [api] and [tools].
func (p *program) wireAPI(c *config) (api, error) {
	s := c.file.API
	if s.Provider == "" {
		return api{}, c.wrong("api.provider", `is missing: "anthropic", or "openai" for whatever speaks chat completions`)
	}
	if err := c.oneOf("api.provider", s.Provider, providerAnthropic, providerOpenAI); err != nil {
		return api{}, err
	}
	if s.Model == "" {
		return api{}, c.wrong("api.model", `is missing: the provider's name of a model, such as "`+usualModel+`"`)
	}
	for _, n := range []struct {
		key         string
		value, from int
	}{{"api.context_window", s.ContextWindow, smallWindow}, {"api.max_output", s.MaxOutput, 1}, {"api.max_calls", s.MaxCalls, 1}, {"api.max_tools", s.MaxTools, 1}} {
		if n.value < n.from {
			return api{}, c.wrong(n.key, "must be %d or more", n.from)
		}
	}
	if s.MaxOutput > s.ContextWindow/2 {
		return api{}, c.wrong("api.max_output", "is more than half of api.context_window, %d", s.ContextWindow)
	}
	made := api{url: s.BaseURL, provider: s.Provider}
	where := s.key()
	switch n := where.ways(); {
	case n > 1:
		return api{}, c.wrong("api", "key_file, key_env and key_command are one too many: keep one")
	case n == 0 && s.BaseURL == "":
		return api{}, c.wrong("api.key_file", "is missing: where the provider's key is; or key_env, or key_command")
	case n == 1:
		made.key = p.secret(c, where)
	}
	if err := c.checkBaseURL(made); err != nil {
		return api{}, err
	}
	if err := c.checkWorkdir(); err != nil {
		return api{}, err
	}
	if len(s.Tools.Task) > 0 {
		return api{}, c.at([]string{"api", "tools", "task"}, "leave it out", "gives tools to nothing: what no message causes is a summary, and that is made without any")
	}
	var err error
	made.programs, err = c.programs()
	return made, err
}

// model is the API with its key; stall is how long it may say nothing.
func (a api) model(key string, stall time.Duration) inference {
	if a.provider == providerAnthropic {
		return react.NewMessages(a.url, key, stall)
	}
	return react.NewChat(a.url, key, stall)
}

// checkWorkdir keeps the file tools, which reach all of workdir, from what must
// not be told to a model, let alone written by one: this configuration, the
// secrets, the state, what the agent is told of its rules, and programs that run
// unconfined.
func (c *config) checkWorkdir() error {
	const hint = `such as "~/agents/goulard", which holds nothing but what the agent is to work on`
	if c.file.Turn.Workdir == "" {
		return c.at([]string{"turn", "workdir"}, hint, `is missing: with runner = "api" the agent has a folder of its own`)
	}
	workdir := c.resolve(c.file.Turn.Workdir)
	stateDir := cmp.Or(c.file.Agent.StateDir, filepath.Join("~", ".local", "state", name))
	mail, mesh := c.file.Mail, c.file.Mesh
	for _, kept := range append([]string{
		c.path, stateDir, c.file.API.KeyFile, mesh.TokenFile, mail.IMAP.PasswordFile, mail.SMTP.PasswordFile,
		mail.IMAP.OAuth2.ClientSecretFile, mail.IMAP.OAuth2.RefreshTokenFile, c.file.Turn.Prompts,
	}, c.ownPrograms()...) {
		if kept != "" && below(workdir, c.resolve(kept)) {
			return c.at([]string{"turn", "workdir"}, hint, "holds %s, which the agent's tools could then read and write", c.resolve(kept))
		}
	}
	return nil
}

// ownPrograms are the programs and schemas that the configuration names by their
// path.
func (c *config) ownPrograms() []string {
	mail, mesh := c.file.Mail, c.file.Mesh
	commands := [][]string{
		c.file.API.KeyCommand, mesh.TokenCommand, mail.IMAP.PasswordCommand, mail.SMTP.PasswordCommand,
		mail.IMAP.TokenCommand, mail.SMTP.TokenCommand, mail.IMAP.OAuth2.ClientSecretCommand,
		c.file.Turn.Summary, {c.file.Schedule.Crontab},
	}
	var paths []string
	for _, name := range slices.Sorted(maps.Keys(c.file.Tools)) {
		commands = append(commands, c.file.Tools[name].Command)
		paths = append(paths, c.file.Tools[name].Schema)
	}
	for _, command := range commands {
		if len(command) > 0 && strings.Contains(command[0], "/") {
			paths = append(paths, command[0])
		}
	}
	return paths
}

// below says whether path is dir, or lies in it, whatever links lead there.
func below(dir, path string) bool {
	for _, p := range []*string{&dir, &path} {
		if real, err := filepath.EvalSymlinks(*p); err == nil {
			*p = real
		}
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// key is where the provider's key is.
func (s apiSection) key() secretSource {
	return secretSource{file: s.KeyFile, env: s.KeyEnv, command: slices.Clone(s.KeyCommand)}
}

// checkBaseURL keeps a key from going over a network in the clear.
func (c *config) checkBaseURL(made api) error {
	if made.url == "" {
		return nil
	}
	u, err := url.Parse(made.url)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.RawQuery != "" {
		return c.wrong("api.base_url", `is no address such as "https://openrouter.ai/api/v1"`)
	}
	ip := net.ParseIP(u.Hostname())
	if u.Scheme == "http" && made.key != nil && u.Hostname() != "localhost" && !ip.IsLoopback() {
		return c.wrong("api.base_url", "would send the key in the clear: use https, or a server of this machine, or no key")
	}
	return nil
}

// programs are the user's tools, in the order of their names.
func (c *config) programs() ([]react.Program, error) {
	var all []react.Program
	for _, name := range slices.Sorted(maps.Keys(c.file.Tools)) {
		t, key := c.file.Tools[name], "tools."+name
		made := react.Program{Name: name, Description: t.Description, Command: slices.Clone(t.Command), Timeout: toolPatience}
		if len(t.Command) == 0 {
			return nil, c.wrong(key+".command", `is missing: the program, such as ["./deploy.sh"]`)
		}
		if strings.Contains(t.Command[0], "/") {
			made.Command[0] = c.resolve(t.Command[0])
		}
		if t.Description == "" {
			return nil, c.wrong(key+".description", "is missing: it tells the model what the tool does")
		}
		if t.Schema == "" {
			return nil, c.wrong(key+".schema", "is missing: a file with the JSON schema of its arguments")
		}
		var err error
		if made.Schema, err = readShort(c.resolve(t.Schema), longestSchema); err != nil {
			return nil, c.wrong(key+".schema", "%v", err)
		}
		if t.Timeout != "" {
			if made.Timeout, err = c.span(key+".timeout", t.Timeout); err != nil {
				return nil, err
			}
		}
		if _, err := made.Tool(); err != nil {
			return nil, c.wrong(key, "%v", err)
		}
		all = append(all, made)
	}
	return all, nil
}

// apiEnv is [turn] env for the loop, with the variable of the key, which no
// other agent gets.
func (p *program) apiEnv(c *config) map[string]string {
	env := maps.Clone(c.file.Turn.Env)
	if key := c.file.API.KeyEnv; key != "" {
		if env == nil {
			env = map[string]string{}
		}
		env[key] = cmp.Or(p.env(key), env[key])
	}
	return env
}

// readShort reads a regular file of at most so many bytes.
func readShort(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return nil, &os.PathError{Op: "read", Path: path, Err: errTooMuch}
	}
	return os.ReadFile(path)
}
