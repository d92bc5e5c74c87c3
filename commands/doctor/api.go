package doctor

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"agentstateloop/commands/config"
	"agentstateloop/turn/react"
)

// apiCheck asks the API of runner = "api" which models it has. That costs
// nothing, and shows whether the API answers, accepts the key and has our model.
type apiCheck struct {
	job     *config.Loader
	config  *config.Config
	network bool
}

func (c apiCheck) look(ctx context.Context) Finding {
	const name = "agent"
	s := c.config.File.API
	api, err := c.job.API(c.config)
	if err != nil {
		return skip(name, "[api] has an error, see config", "fix the configuration")
	}
	where := cmp.Or(s.BaseURL, s.Provider)
	if !c.network {
		return good(name, "the loop in this program, with %s from %s, which was not asked", s.Model, where)
	}
	key := ""
	if api.Key != nil {
		if key, err = api.Key(ctx); err != nil {
			return skip(name, "there is no key to ask "+where+" with, see secret.api", "")
		}
	}
	models, err := api.Model(key, checkTimeout).Models(ctx)
	switch {
	case react.ListUnsupported(err):
		return good(name, "the loop in this program, with %s from %s, which answers and does not list its models", s.Model, where)
	case react.KeyRefused(err):
		return bad(Error, name, "look at the key of [api], and at its account with the provider", "ask %s: %v", where, err)
	case err != nil:
		return bad(Error, name, "look at base_url in [api], or try again later", "ask %s: %v", where, err)
	}
	for _, model := range []string{s.Model, s.LowModel, s.SummaryModel} {
		if model != "" && len(models) > 0 && !lists(models, model) {
			return bad(Warn, name, "look up its name at the provider; turns with it may fail", "%s does not list the model %s", where, model)
		}
	}
	return good(name, "the loop in this program, with %s from %s, which answers", s.Model, where)
}

// lists reports whether a list of models has one of that name. A name without a
// date, or with "latest", means the newest of several that have a date.
func lists(models []string, name string) bool {
	family := strings.TrimSuffix(strings.TrimSuffix(name, "latest"), "-")
	return slices.ContainsFunc(models, func(listed string) bool { return strings.HasPrefix(listed, family) })
}
