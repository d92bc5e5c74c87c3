package config

import (
	"context"
	"net"
	"net/url"
	"slices"
	"time"

	"agentstateloop/turn/react"
)

// The values of api.provider: the two APIs that are spoken.
const (
	Anthropic = "anthropic"
	OpenAI    = "openai"
)

// UsualModel is the model of Anthropic that init suggests.
const UsualModel = "claude-sonnet-4-5"

// smallWindow is the least context window, in tokens, that a conversation fits
// into.
const smallWindow = 4096

// API is what [api] and [tools] say.
type API struct {
	Key      func(context.Context) (string, error) // nil: the server needs none
	Programs []react.Program                       // the user's tools, without what only a turn knows

	url, provider string
}

// Model is a model API that can also list its models.
type Model interface {
	react.Model
	Models(context.Context) ([]string, error)
}

// Model returns the API with its key. stall is how long it may be silent.
func (a API) Model(key string, stall time.Duration) Model {
	if a.provider == Anthropic {
		return react.NewMessages(a.url, key, stall)
	}
	return react.NewChat(a.url, key, stall)
}

// API checks [api] and [tools] and wires them.
func (l *Loader) API(c *Config) (API, error) {
	s := c.File.API
	if err := c.checkModel(); err != nil {
		return API{}, err
	}
	a := API{url: s.BaseURL, provider: s.Provider}
	key := s.Secret()
	switch n := key.Ways(); {
	case n > 1:
		return API{}, c.Wrong("api", "%d of key_file, key_env and key_command are set: keep one", n)
	case n == 0 && s.BaseURL == "":
		return API{}, c.Wrong("api.key_file", "is missing: the file with the provider's key; key_env and key_command work too")
	case n == 1:
		a.Key = l.Secret(c, key)
	}
	if err := c.checkBaseURL(a.Key != nil); err != nil {
		return API{}, err
	}
	if err := c.checkWorkdir(); err != nil {
		return API{}, err
	}
	if len(s.Tools.Task) > 0 {
		return API{}, c.At([]string{"api", "tools", "task"}, "leave it out", "has no use: only a summary has no message as its cause, and it is made without tools")
	}
	var err error
	a.Programs, err = c.programs()
	return a, err
}

// checkModel checks the provider, the model and the limits.
func (c *Config) checkModel() error {
	s := c.File.API
	if s.Provider == "" {
		return c.Wrong("api.provider", `is missing: "anthropic", or "openai" for every server that speaks chat completions`)
	}
	if err := c.oneOf("api.provider", s.Provider, Anthropic, OpenAI); err != nil {
		return err
	}
	if s.Model == "" {
		return c.Wrong("api.model", `is missing: the provider's name of a model, such as "`+UsualModel+`"`)
	}
	for _, n := range []struct {
		key         string
		value, from int
	}{{"api.context_window", s.ContextWindow, smallWindow}, {"api.max_output", s.MaxOutput, 1}, {"api.max_calls", s.MaxCalls, 1}, {"api.max_tools", s.MaxTools, 1}} {
		if n.value < n.from {
			return c.Wrong(n.key, "must be %d or more", n.from)
		}
	}
	if s.MaxOutput > s.ContextWindow/2 {
		return c.Wrong("api.max_output", "is more than half of api.context_window, %d", s.ContextWindow)
	}
	return nil
}

// Secret says where the provider's key is.
func (s apiSection) Secret() Source {
	return Source{File: s.KeyFile, Env: s.KeyEnv, Command: slices.Clone(s.KeyCommand)}
}

// checkBaseURL keeps a key from crossing a network in clear text.
func (c *Config) checkBaseURL(hasKey bool) error {
	base := c.File.API.BaseURL
	if base == "" {
		return nil
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.RawQuery != "" {
		return c.Wrong("api.base_url", `%q is not a URL such as "https://openrouter.ai/api/v1"`, base)
	}
	ip := net.ParseIP(u.Hostname())
	if u.Scheme == "http" && hasKey && u.Hostname() != "localhost" && !ip.IsLoopback() {
		return c.Wrong("api.base_url", "would send the key in clear text: use https, a server on this machine, or no key")
	}
	return nil
}
