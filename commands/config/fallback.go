package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"agentstateloop/cycle"
	"agentstateloop/turn"
)

// The values of [turn] on_limit: messages wait until a limit ends, or run with the cheaper
// settings.
const (
	OnLimitWait = "wait"
	OnLimitLow  = "low"
)

// fallbackSection is one [[turn.fallback]]: the keys of [turn] and [api] that each runner sets for
// itself. The other keys of these sections apply unchanged.
type fallbackSection struct {
	Runner      string            `toml:"runner"`
	Command     []string          `toml:"command"`
	Env         map[string]string `toml:"env"`
	Permissions rightsSection     `toml:"permissions"`
	Options     map[string]string `toml:"options"`

	modelSection
}

// lists returns the lists of a section by name.
func (s *rightsSection) lists() map[string]*[]string {
	return map[string]*[]string{
		"operator": &s.Operator, "peer": &s.Peer, "event": &s.Event, "task": &s.Task, "self": &s.Self, "summary": &s.Summary,
	}
}

// Fallback returns a copy of the configuration in which the nth fallback, from 1, replaces the
// usual runner.
func (c *Config) Fallback(n int) *Config {
	v, f := *c, c.File.Turn.Fallback[n-1]
	v.fallback = n
	t := &v.File.Turn
	usual := t.Runner
	t.Runner, t.Command, t.ContextWindow = f.Runner, f.Command, f.ContextWindow
	t.LowCommand, t.LowArgs, t.Fallback, t.OnLimit = nil, nil, nil, OnLimitWait
	t.MCP = t.MCP && startsTools(f.Runner)
	t.ACP.Options, t.ACP.LowOptions = f.Options, nil
	t.Approve = t.Approve && f.Runner == turn.Claude
	if f.Runner == turn.API {
		t.Sandbox = "" // its tools have their own sandboxes
	}
	t.Env = maps.Clone(t.Env)
	if t.Env == nil {
		t.Env = map[string]string{}
	}
	maps.Copy(t.Env, f.Env)
	own := f.Permissions.lists()
	for cause, args := range t.Permissions.lists() {
		if *own[cause] != nil || f.Runner != usual {
			*args = *own[cause]
		}
	}
	a := &v.File.API
	usualModel := a.modelSection
	a.modelSection, a.LowModel, a.SummaryModel = f.modelSection, "", ""
	a.ContextWindow = cmp.Or(f.ContextWindow, usualModel.ContextWindow)
	a.MaxOutput = cmp.Or(f.MaxOutput, min(usualModel.MaxOutput, a.ContextWindow/2))
	return &v
}

// startsTools reports whether a runner can start the server of our tools.
func startsTools(runner string) bool {
	return slices.Contains([]string{turn.Claude, turn.Codex, turn.Gemini, turn.ACP}, runner)
}

// hasInFallback reports whether the selected fallback sets a key of [turn] or [api]. ok is false if
// no fallback is selected, or the key is not one that a fallback sets for itself.
func (c *Config) hasInFallback(key string) (has, ok bool) {
	if c.fallback == 0 {
		return false, false
	}
	t, a := &c.File.Turn, &c.File.API
	if cause, is := strings.CutPrefix(key, "turn.permissions."); is {
		return *t.Permissions.lists()[cause] != nil, true
	}
	switch key {
	case "turn.acp":
		return t.Runner == turn.ACP && c.meta.IsDefined("turn", "acp"), true
	case "api.vision":
		return a.Vision != nil, true
	}
	return false, false
}

// position returns the position of a key in the file: a key that the selected fallback sets for
// itself is in the section of that fallback. line is 0 if the key is at its usual position.
func (c *Config) position(key []string) (at []string, line int) {
	section, name, _ := strings.Cut(strings.Join(key, "."), ".")
	if c.fallback == 0 || section != "turn" && section != "api" || !isFallbackKey(name) {
		return key, 0
	}
	return append([]string{"turn", "fallback"}, splitKey(name)...), c.fallbackLine(c.fallback)
}

// isFallbackKey reports whether name is a key of [turn] or [api] that a fallback sets for itself.
func isFallbackKey(name string) bool {
	keys, _ := keysOf([]string{"turn", "fallback"})
	first, _, _ := strings.Cut(name, ".")
	return slices.Contains(keys, first)
}

// fallbackLine returns the line of the nth [[turn.fallback]], or 0.
func (c *Config) fallbackLine(n int) int {
	for i, line := range strings.Split(c.text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "[[turn.fallback]]") {
			if n--; n == 0 {
				return i + 1
			}
		}
	}
	return 0
}

// wireBackends returns the backends that run turns while usual is unavailable: the cheaper
// settings, with on_limit = "low", and the fallbacks.
func (l *Loader) wireBackends(c *Config, usual *turn.Config, self string) ([]cycle.Backend, error) {
	t := c.File.Turn
	if err := c.oneOf("turn.on_limit", t.OnLimit, OnLimitWait, OnLimitLow); err != nil {
		return nil, err
	}
	if n := len(t.Fallback); n > cycle.MaxFallbacks {
		return nil, c.Wrong("turn.fallback", "%d fallbacks are set, but the limit is %d", n, cycle.MaxFallbacks)
	}
	if usual == nil {
		if len(t.Fallback) > 0 {
			return nil, c.At(splitKey("turn.fallback"), "remove it", `has no effect with runner = "none"`)
		}
		return nil, nil
	}
	var all []cycle.Backend
	if t.OnLimit == OnLimitLow {
		if !usual.Cheaper() {
			return nil, c.At(splitKey("turn.on_limit"), `set low_args to arguments that select a cheaper model, low_command with runner = "exec", or low_model in [api]`, `"low" requires a cheaper model`)
		}
		all = append(all, cycle.LowBackend(usual))
	}
	for i := range t.Fallback {
		b, err := l.wireFallback(c, i+1, self)
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return all, nil
}

// wireFallback wires the nth fallback.
func (l *Loader) wireFallback(c *Config, n int, self string) (cycle.Backend, error) {
	v := c.Fallback(n)
	if err := v.checkFallback(c.File.Turn); err != nil {
		return cycle.Backend{}, err
	}
	t, err := l.wireTurn(v, self)
	if err != nil {
		return cycle.Backend{}, err
	}
	kinds, err := v.wireKinds()
	if err != nil {
		return cycle.Backend{}, err
	}
	t.LoginName = fmt.Sprintf("agent:%s:%d", t.Runner, n)
	if t.Runner == turn.API {
		t.Command = append(t.Command, "--"+FallbackFlag, strconv.Itoa(n))
	}
	return cycle.Backend{Name: t.Login(), Turn: t, Rights: v.rights(), Kinds: kinds, Window: int64(v.File.Turn.ContextWindow)}, nil
}

// FallbackFlag is the flag that passes the number of the fallback to our own loop.
const FallbackFlag = "fallback"

// checkFallback checks the rules that apply only to fallbacks. usual is [turn] without the
// fallback.
func (c *Config) checkFallback(usual turnSection) error {
	runner := c.File.Turn.Runner
	switch {
	case runner == "":
		return c.Missing("turn.runner", "set it to one of: "+strings.Join(fallbackRunners(), ", "))
	case !slices.Contains(fallbackRunners(), runner):
		return c.Wrong("turn.runner", "%q is not one of: %s", runner, strings.Join(fallbackRunners(), ", "))
	case runner == turn.API || runner == usual.Runner:
		return nil
	}
	// Arguments of the runner set the permissions of a turn. A fallback must not have more.
	for cause, args := range usual.Permissions.lists() {
		if *args != nil && *c.File.Turn.Permissions.lists()[cause] == nil {
			return c.Missing("turn.permissions."+cause, fmt.Sprintf("[turn.permissions] restricts these turns with arguments for %s; set the arguments for %s in [turn.fallback.permissions], or [] for none", usual.Runner, runner))
		}
	}
	return nil
}

// fallbackRunners returns the runners allowed in a fallback.
func fallbackRunners() []string {
	return slices.DeleteFunc(Runners(), func(r string) bool { return r == "none" })
}
