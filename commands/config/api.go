package config

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"agentstateloop/internal/lazy"
	"agentstateloop/state"
	"agentstateloop/turn"
	"agentstateloop/turn/react"
	"agentstateloop/turn/toolserver"
)

// The values of api.provider. Each names a protocol.
const (
	Anthropic = "anthropic"
	OpenAI    = "openai"
)

// minWindow is the smallest usable context window, in tokens.
const minWindow = 4096

// API is the result of wiring [api] and [tools].
type API struct {
	Key      func(context.Context) (string, error) // reads the key; nil if the server needs no key
	Programs []react.Program                       // the user's tools, without the fields that only a turn can set
	Servers  []toolserver.Server                   // the MCP servers, also without those fields

	url, provider string
}

// API checks [api] and [tools] and wires them.
func (l *Loader) API(c *Config) (API, error) {
	s := c.File.API
	if err := c.checkModel(); err != nil {
		return API{}, err
	}
	a := API{url: s.BaseURL, provider: s.Provider}
	key := s.Secret()
	switch n := key.CountSet(); {
	case n > 1:
		return API{}, c.At(splitKey("api"), "keep one of them", "%d of key_file, key_env and key_command are set", n)
	case n == 0 && s.BaseURL == "":
		return API{}, c.Missing("api.key_file", "set it to the file with the provider's API key, or set key_env or key_command")
	case n == 1:
		a.Key = l.Secret(c, key)
	}
	if err := c.checkBaseURL(a.Key != nil); err != nil {
		return API{}, err
	}
	if err := c.checkWorkdir(`runner = "api"`); err != nil {
		return API{}, err
	}
	if err := c.checkExec(); err != nil {
		return API{}, err
	}
	var err error
	if a.Servers, err = l.wireToolServers(c); err != nil {
		return API{}, err
	}
	a.Programs, err = c.wireTools()
	return a, err
}

// checkModel checks the provider, the model and the limits.
func (c *Config) checkModel() error {
	s := c.File.API
	if s.Provider == "" {
		return c.Missing("api.provider", `set "anthropic", or "openai" for any OpenAI-compatible server`)
	}
	if err := c.oneOf("api.provider", s.Provider, Anthropic, OpenAI); err != nil {
		return err
	}
	if s.Model == "" {
		return c.Missing("api.model", `set the provider's name for the model, such as "`+turn.UsualModel()+`"`)
	}
	for _, kind := range s.Vision {
		if err := c.oneOf("api.vision", kind, react.Image, react.PDF); err != nil {
			return err
		}
		if kind == react.PDF && s.Provider == OpenAI {
			return c.At(splitKey("api.vision"), `remove "pdf", and give the agent a tool that reads PDFs`, "the chat completions API does not accept PDFs")
		}
	}
	for _, n := range []struct {
		key         string
		value, from int
	}{{"api.context_window", s.ContextWindow, minWindow}, {"api.max_output", s.MaxOutput, 1}, {"api.max_calls", s.MaxCalls, 1}, {"api.max_tools", s.MaxTools, 1}} {
		if n.value < n.from {
			return c.Wrong(n.key, "must be at least %d", n.from)
		}
	}
	if err := c.checkShape(); err != nil {
		return err
	}
	if time.Duration(s.Rest) > state.MaxSleep {
		return c.Wrong("api.rest", "must be at most 24h")
	}
	if s.MaxOutput > s.ContextWindow/2 {
		return c.Wrong("api.max_output", "must be at most half of api.context_window (%d)", s.ContextWindow)
	}
	return nil
}

// checkBaseURL checks the URL of the API. It rejects a URL that would send a key
// over a network unencrypted.
func (c *Config) checkBaseURL(hasKey bool) error {
	base := c.File.API.BaseURL
	if base == "" {
		return nil
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.RawQuery != "" {
		return c.At(splitKey("api.base_url"), `use a URL such as "https://openrouter.ai/api/v1", without a user name or query`, "%q is not a valid base URL", base)
	}
	if u.Scheme == "http" && hasKey && !Loopback(u.Hostname()) {
		return c.At(splitKey("api.base_url"), "use https, a server on this machine, or no key", "would send the API key unencrypted")
	}
	return nil
}

// Sees returns the kinds of input that a model of the API accepts: the value of vision if it is
// set, otherwise our built-in knowledge.
func (c *Config) Sees(model string) []string {
	if c.Has("api.vision") {
		return c.File.API.Vision
	}
	kinds := turn.Sees(model)
	if c.File.API.Provider == OpenAI {
		kinds = slices.DeleteFunc(kinds, func(kind string) bool { return kind == react.PDF })
	}
	return kinds
}

// ListsModel reports whether a provider's models contain name. A name without a date, or with
// "latest", means the newest of the dated names.
func ListsModel(models []string, name string) bool {
	family := strings.TrimSuffix(strings.TrimSuffix(name, "latest"), "-")
	return slices.ContainsFunc(models, func(listed string) bool { return strings.HasPrefix(listed, family) })
}

// Secret returns the source of the provider's key.
func (s apiSection) Secret() Source {
	return Source{File: s.KeyFile, Env: s.KeyEnv, Command: slices.Clone(s.KeyCommand)}
}

// Address returns a name of the API, under which we record facts about its models.
func (a API) Address() string { return cmp.Or(a.url, a.provider) }

// Shape returns the changes that [api] makes to requests.
func (c *Config) Shape() react.Shape {
	s := c.File.API
	return react.Shape{Omit: s.Omit, Extra: s.Extra, Headers: s.Headers, Effort: s.Effort}
}

// checkShape checks omit, extra and headers. It rejects changes to the members that every request
// needs.
func (c *Config) checkShape() error {
	s := c.File.API
	for _, needed := range []string{"model", "messages", "stream"} {
		_, extra := s.Extra[needed]
		if slices.Contains(s.Omit, needed) || extra {
			return c.At(splitKey("api"), "remove it from omit and extra", "every request needs %q", needed)
		}
	}
	for name, value := range s.Headers {
		if !validHeader.Get().MatchString(name) || strings.ContainsAny(value, "\r\n") {
			return c.Wrong("api.headers", "%q is not a valid header", name)
		}
		if secretName.Get().MatchString(name) {
			return c.At(splitKey("api.headers"), "put the key in a file, and set key_file to that file", "%q would store a secret in the configuration", name)
		}
	}
	return nil
}

var validHeader = lazy.NewRegexp(`^[A-Za-z0-9-]{1,64}$`)

// Model is a model API that can also list its models.
type Model interface {
	react.Model
	Models(context.Context) ([]string, error)
}

// Model returns a client of the API that uses key. A request fails if the server sends no data for
// the duration of stall.
func (a API) Model(key string, stall time.Duration) Model {
	if a.provider == Anthropic {
		return react.NewMessages(a.url, key, stall)
	}
	return react.NewChat(a.url, key, stall)
}
