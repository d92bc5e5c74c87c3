package config

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"agentstateloop/commands/terminal"
	"agentstateloop/cycle/heartbeat"
	"agentstateloop/cycle/hook"
	"agentstateloop/internal/account"
	"agentstateloop/internal/lazy"
	"agentstateloop/state"
)

const (
	maxHookTimeout = time.Minute
	maxHooks       = 16
)

// sectionName matches the names of hooks and prompts.
var sectionName = lazy.NewRegexp(`^[a-z0-9][a-z0-9-]{0,31}$`)

// wireHooks wires the tables [[hook]].
func (l *Loader) wireHooks(c *Config, self string) ([]hook.Hook, error) {
	if n := len(c.File.Hooks); n > maxHooks {
		return nil, c.Wrong("hook", "%d hooks are set, but the limit is %d", n, maxHooks)
	}
	var all []hook.Hook
	for i, section := range c.File.Hooks {
		wired, err := l.wireHook(c, self, i, section)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(other hook.Hook) bool { return other.Name == wired.Name }) {
			return nil, c.wrongHook(i, "name", "give each hook its own name", "two hooks are named %q", wired.Name)
		}
		all = append(all, wired)
	}
	return all, nil
}

// wrongHook returns an error about a key of the hook with the index at.
func (c *Config) wrongHook(at int, key, hint, format string, args ...any) error {
	return c.wrongIn("hook", at, key, hint, format, args...)
}

// wrongIn returns an error about a key of a table, given the kind of the table and its index among
// those, such as the second [[hook]]. The line of the error is that of the key, or else of the
// table.
func (c *Config) wrongIn(kind string, at int, key, hint, format string, args ...any) error {
	return &Error{
		Path: c.Path, Line: c.lineIn(kind, at, key), Key: kind + "." + key, Advice: hint,
		Text: fmt.Sprintf("(%s %d) %s", kind, at+1, fmt.Sprintf(format, args...)),
	}
}

// headerName matches the names of headers that a hook may set.
var headerName = lazy.NewRegexp(`^[A-Za-z0-9-]{1,64}$`)

// anyTable matches the first line of a table.
var anyTable = lazy.NewRegexp(`^\s*\[`)

// lineIn returns the line of a key in a table, or the line of the table. at is the index among the
// tables of that kind.
func (c *Config) lineIn(kind string, at int, key string) int {
	begins := regexp.MustCompile(`^\s*\[\[\s*"?` + kind + `"?\s*\]\]`)
	table, own := 0, regexp.MustCompile(`^\s*"?`+regexp.QuoteMeta(key)+`"?\s*=`)
	for i, line := range strings.Split(c.text, "\n") {
		switch {
		case begins.MatchString(line):
			if at--; at == -1 {
				table = i + 1
			}
		case at == -1 && own.MatchString(line):
			return i + 1
		case at == -1 && anyTable.Get().MatchString(line) && !strings.Contains(line, kind):
			return table
		}
	}
	return table
}

// wireHook wires one hook.
func (l *Loader) wireHook(c *Config, self string, at int, s hookSection) (hook.Hook, error) {
	h := hook.Hook{Redact: l.Secrets.Redact, Name: cmp.Or(s.Name, "hook-"+strconv.Itoa(at+1)), On: slices.Clone(s.On), Timeout: cmp.Or(time.Duration(s.Timeout), hook.DefaultTimeout)}
	switch {
	case !sectionName.Get().MatchString(h.Name):
		return h, c.wrongHook(at, "name", "use a-z, 0-9 and -, at most 32 characters", "%q is not a valid name", h.Name)
	case len(s.On) == 0:
		return h, c.wrongHook(at, "on", `set events such as ["task.failed", "blocker"]; docs/events.md lists all events`, "is missing")
	case h.Timeout < time.Second || h.Timeout > maxHookTimeout:
		return h, c.wrongHook(at, "timeout", "", "must be between 1s and %v", maxHookTimeout)
	case len(s.Command) == 0 && s.URL == "", len(s.Command) > 0 && s.Command[0] == "":
		return h, c.wrongHook(at, "command", `set command = ["./on-event.sh"], or url = "https://…"`, "is missing")
	case len(s.Command) > 0 && s.URL != "":
		return h, c.wrongHook(at, "url", "use two hooks", "command and url cannot both be set")
	}
	names := append(state.EventNames(), "*")
	for _, on := range s.On {
		if !slices.Contains(names, on) && !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, on+".") }) {
			return h, c.wrongHook(at, "on", terminal.DidYouMean(on, names, "docs/events.md lists all events"), "unknown event %q", on)
		}
	}
	var err error
	if h.Body, err = hookTemplate(h, s.Body); err != nil {
		return h, c.wrongHook(at, "body", `use the fields in docs/events.md, such as {{.Event}}, {{.Text}} and {{json .Text}}`, "%v", err)
	}
	if len(s.Command) > 0 {
		h.Program, err = c.hookProgram(self, at, s)
	} else {
		h.Address, err = l.hookAddress(c, at, h, s)
	}
	return h, err
}

// hookTemplate parses a template of a hook. It returns nil for "". It executes the template once to
// find errors now.
func hookTemplate(h hook.Hook, text string) (*template.Template, error) {
	if text == "" {
		return nil, nil
	}
	t, err := template.New("body").Funcs(hook.Functions()).Parse(text)
	if err != nil {
		return nil, err
	}
	h.Body = t
	_, err = h.Render(state.Announcement{Event: state.EventTest, Agent: "agent"})
	return t, err
}

// hookProgram wires the command of a hook. The command gets the small environment of an agent, and
// [turn.env].
func (c *Config) hookProgram(self string, at int, s hookSection) (*hook.Program, error) {
	for key, set := range map[string]bool{
		"headers": len(s.Headers) > 0, "content_type": s.ContentType != "", "insecure": s.Insecure,
		"token_file": s.Token().CountSet() > 0, "secret_file": s.Secret().CountSet() > 0,
	} {
		if set {
			return nil, c.wrongHook(at, key, "remove it", "can only be used with url")
		}
	}
	return c.programWith(self, s.Command), nil
}

// environment maps names of environment variables to values.
type environment map[string]string

// minimalEnv returns the small environment of an agent, plus [turn.env].
func (c *Config) minimalEnv(self string) environment {
	env := environment{"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8"}
	maps.Copy(env, account.Environ())
	maps.Copy(env, c.File.Turn.Env)
	if dir := filepath.Dir(self); !slices.Contains(filepath.SplitList(env["PATH"]), dir) {
		env["PATH"] += ":" + dir
	}
	env["AGENTSTATELOOP_CONFIG"], env["AGENTSTATELOOP_HANDLE"] = c.Path, c.File.Agent.Handle
	return env
}

// list returns the environment as NAME=value, sorted.
func (e environment) list() (all []string) {
	for _, name := range slices.Sorted(maps.Keys(e)) {
		all = append(all, name+"="+e[name])
	}
	return all
}

// hookAddress wires the url of a hook.
func (l *Loader) hookAddress(c *Config, at int, h hook.Hook, s hookSection) (*hook.Address, error) {
	a := &hook.Address{URL: s.URL, ContentType: s.ContentType, Headers: map[string]*template.Template{}, Now: l.Now}
	a.ContentType = cmp.Or(a.ContentType, map[bool]string{true: "application/json", false: "text/plain; charset=utf-8"}[s.Body == "" || looksLikeJSON(h)])
	token, secret := s.Token(), s.Secret()
	plainURL := strings.ReplaceAll(s.URL, hook.TokenPlace, "token")
	u, err := url.Parse(plainURL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Contains(u.Host, "token"):
		return nil, c.wrongHook(at, "url", `use a URL such as "https://ntfy.sh/my-topic"`, "%q is not an http or https URL", s.URL)
	case u.Port() != "" && !isPort(u.Port()):
		return nil, c.wrongHook(at, "url", "use a port from 1 to 65535", "%q has an invalid port, %s", s.URL, u.Port())
	case u.User != nil:
		return nil, c.wrongHook(at, "url", "put the password in a file, and set token_file to that file", "must not contain a password")
	case u.Scheme == "http" && !Loopback(u.Hostname()) && (!s.Insecure || token.CountSet() > 0):
		return nil, c.wrongHook(at, "url", "use https; insecure = true allows http within your own network, without a token", "would send events unencrypted to %q", s.URL)
	case token.CountSet() > 1 || secret.CountSet() > 1:
		return nil, c.wrongHook(at, "url", "keep one of file, env and command", "the token or the secret is set more than once")
	case strings.Contains(s.URL, hook.TokenPlace) && token.CountSet() == 0:
		return nil, c.wrongHook(at, "url", "set token_file", "contains %s, but no token is set", hook.TokenPlace)
	}
	if token.CountSet() == 1 {
		a.Token = l.Secret(c, token)
	}
	if secret.CountSet() == 1 {
		a.Secret = l.Secret(c, secret)
	}
	for name, value := range s.Headers {
		t, err := hookTemplate(h, value)
		if err == nil && (!headerName.Get().MatchString(name) || slices.ContainsFunc(ownHeaders, func(own string) bool { return strings.EqualFold(own, name) })) {
			err = fmt.Errorf("%q cannot be set", name)
		}
		if err != nil {
			return nil, c.wrongHook(at, "headers", "", "%v", err)
		}
		if t != nil {
			a.Headers[name] = t
		}
	}
	return a, nil
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

// ownHeaders are headers that the configuration cannot set.
var ownHeaders = []string{
	"Host", "Content-Length", "Content-Type", "Transfer-Encoding", "Connection", "Authorization",
	hook.EventHeader, hook.DeliveryHeader, hook.TimestampHeader, hook.SignatureHeader,
}

// looksLikeJSON reports whether the body template of a hook produces JSON.
func looksLikeJSON(h hook.Hook) bool {
	body, err := h.Render(state.Announcement{Event: state.EventTest, Agent: "agent"})
	return err == nil && strings.HasPrefix(strings.TrimSpace(string(body)), "{")
}

// hookPolicies returns the policies of the hooks for the state machine.
func hookPolicies(hooks []hook.Hook) []state.HookPolicy {
	var policies []state.HookPolicy
	for _, h := range hooks {
		policies = append(policies, state.HookPolicy{Name: h.Name, On: h.On})
	}
	return policies
}

// Token returns the source of a hook's token.
func (s hookSection) Token() Source {
	return Source{File: s.TokenFile, Env: s.TokenEnv, Command: slices.Clone(s.TokenCommand)}
}

// Secret returns the source of the secret that signs a hook's requests.
func (s hookSection) Secret() Source {
	return Source{File: s.SecretFile, Env: s.SecretEnv, Command: slices.Clone(s.SecretCommand)}
}

// heartbeatHint explains the format of the heartbeat address.
const heartbeatHint = `use a URL such as "https://hc-ping.com/…", or set heartbeat_file to a file with the URL`

// wireHeartbeat wires the keys heartbeat… of [schedule]. It returns nil if all are unset. Its
// errors never contain the address.
func (l *Loader) wireHeartbeat(c *Config) (*heartbeat.Monitor, error) {
	s := c.File.Schedule
	source := s.HeartbeatSource()
	n := source.CountSet()
	if s.Heartbeat != "" {
		n++
	}
	switch {
	case n > 1:
		return nil, c.At(splitKey("schedule"), "keep one of them", "%d of heartbeat, heartbeat_file, heartbeat_env and heartbeat_command are set", n)
	case n == 0 && s.HeartbeatInsecure:
		return nil, c.At(splitKey("schedule.heartbeat_insecure"), heartbeatHint, "can only be used with a heartbeat")
	case n == 0:
		return nil, nil
	}
	m := &heartbeat.Monitor{Insecure: s.HeartbeatInsecure, Roots: c.roots()}
	if s.Heartbeat == "" {
		read := l.Secret(c, source)
		m.Address = func(ctx context.Context) (string, error) {
			address, err := read(ctx)
			l.learnHeartbeat(address)
			return address, err
		}
		return m, nil
	}
	if err := c.checkInBackup("schedule.heartbeat", s.Heartbeat); err != nil {
		return nil, err
	}
	l.learnHeartbeat(s.Heartbeat)
	if err := heartbeat.Check(s.Heartbeat, s.HeartbeatInsecure); err != nil {
		return nil, c.At(splitKey("schedule.heartbeat"), HeartbeatHint(err), "%v", err)
	}
	m.Address = func(context.Context) (string, error) { return s.Heartbeat, nil }
	return m, nil
}

// learnHeartbeat makes the address of the heartbeat, and the keys in it, redacted.
func (l *Loader) learnHeartbeat(address string) {
	if address == "" {
		return
	}
	for i, text := range heartbeat.Secrets(address) {
		l.Secrets.Learn("heartbeat "+strconv.Itoa(i), text)
	}
}

// HeartbeatHint returns the hint for an error of an address.
func HeartbeatHint(err error) string {
	switch {
	case errors.Is(err, heartbeat.ErrPort):
		return "use a port from 1 to 65535"
	case errors.Is(err, heartbeat.ErrPassword):
		return "remove both; the path and the query of the URL are secret enough"
	case errors.Is(err, heartbeat.ErrUnencrypted):
		return "use https; heartbeat_insecure = true allows http within your own network"
	}
	return heartbeatHint
}

// HeartbeatSource returns the source of the heartbeat's address, other than the key heartbeat
// itself.
func (s scheduleSection) HeartbeatSource() Source {
	return Source{File: s.HeartbeatFile, Env: s.HeartbeatEnv, Command: slices.Clone(s.HeartbeatCommand)}
}
