package doctor

import (
	"cmp"
	"context"
	"fmt"

	"agentstateloop/commands/config"
	"agentstateloop/turn/react"
)

// apiCheck asks the model API of runner = "api" for its models. The request is free and shows
// whether the API answers, accepts the key and has the model.
type apiCheck struct {
	loader  *config.Loader
	config  *config.Config
	network bool
	name    string // of the finding
}

func (c apiCheck) finding(ctx context.Context) Finding {
	name, s := c.name, c.config.File.API
	api, err := c.loader.API(c.config)
	if err != nil {
		return skip(name, "[api] has an error; see config", "fix the configuration")
	}
	where := cmp.Or(s.BaseURL, s.Provider)
	if !c.network {
		return good(name, "built-in loop with %s from %s, which was not contacted", s.Model, where)
	}
	key := ""
	if api.Key != nil {
		if key, err = api.Key(ctx); err != nil {
			return skip(name, "the API key for "+where+" could not be read; see secret.api", "")
		}
	}
	models, err := api.Model(key, checkTimeout).Models(ctx)
	asking, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	if window, ok := react.OllamaWindow(asking, s.BaseURL, s.Model); ok && window < s.ContextWindow {
		return bad(Warn, name, fmt.Sprintf("set context_window = %d in [api], or OLLAMA_CONTEXT_LENGTH=%d for Ollama", window, s.ContextWindow),
			"Ollama reads only %d tokens of a request to %s and silently drops the rest, but context_window is %d", window, s.Model, s.ContextWindow)
	}
	switch {
	case react.ListUnsupported(err):
		return good(name, "built-in loop with %s from %s, which answers but does not list its models", s.Model, where)
	case react.KeyRefused(err):
		return bad(Error, name, "check the API key in [api], and your account with the provider", "request to %s: %v", where, err)
	case err != nil:
		return bad(Error, name, "check base_url in [api], or try again later", "request to %s: %v", where, err)
	}
	for _, model := range []string{s.Model, s.LowModel, s.SummaryModel} {
		if model != "" && len(models) > 0 && !config.ListsModel(models, model) {
			return bad(Warn, name, "check the model's name with the provider; turns with this one may fail", "%s does not list the model %s", where, model)
		}
	}
	return good(name, "built-in loop with %s from %s, which answers", s.Model, where)
}
