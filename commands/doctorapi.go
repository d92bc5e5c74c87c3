package commands

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"agentstateloop/turn/react"
)

// checkAPI asks the API of runner = "api" which models it has: that shows
// whether it is there, takes the key and knows ours, and costs nothing.
func (d *patient) checkAPI(ctx context.Context) []finding {
	const check = "agent"
	s := d.config.File.API
	made, err := d.loader.API(d.config)
	if err != nil {
		return skipped(check, "[api] is not right, see config", "mend the configuration")
	}
	where := cmp.Or(s.BaseURL, s.Provider)
	if !d.network {
		return []finding{good(check, "the loop in this program, with %s from %s, which was not asked", s.Model, where)}
	}
	key := ""
	if made.Key != nil {
		if key, err = made.Key(ctx); err != nil {
			return skipped(check, "there is no key to ask "+where+" with, see secret.api", "")
		}
	}
	models, err := made.Model(key, checkPatience).Models(ctx)
	switch {
	case react.ListUnsupported(err):
		return []finding{good(check, "the loop in this program, with %s from %s, which is there and does not tell its models", s.Model, where)}
	case react.KeyRefused(err):
		return []finding{finds(levelError, check, "look at the key of [api], and at its account with the provider", "ask %s: %v", where, err)}
	case err != nil:
		return []finding{finds(levelError, check, "look at base_url in [api], or try again later", "ask %s: %v", where, err)}
	}
	for _, name := range []string{s.Model, s.LowModel, s.SummaryModel} {
		if name != "" && len(models) > 0 && !lists(models, name) {
			return []finding{finds(levelWarn, check, "look for its name at the provider; turns with it may fail", "%s has no model %s in its list", where, name)}
		}
	}
	return []finding{good(check, "the loop in this program, with %s from %s, which answers", s.Model, where)}
}

// lists says whether a model is in a list of them. A name may stand for the
// newest of several, which have a date after it.
func lists(models []string, name string) bool {
	family := strings.TrimSuffix(strings.TrimSuffix(name, "latest"), "-")
	return slices.ContainsFunc(models, func(listed string) bool { return strings.HasPrefix(listed, family) })
}
