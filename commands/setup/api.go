package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/turn"
	"agentstateloop/turn/react"
)

// apiPart is [api].
type apiPart struct {
	provider, model, url string
	keyFile              string // "" if the server needs no key
	key                  string // to be written to keyFile; may be empty
}

func (a *apiPart) write(d *document) {
	d.section("api")
	d.line("provider", a.provider, "anthropic | openai, or a compatible server")
	if a.url != "" {
		d.line("base_url", a.url, "")
	}
	d.line("model", a.model, "")
	if a.keyFile != "" {
		d.line("key_file", path(a.keyFile), "mode 0600")
	}
}

// askAPI asks for the model API. It returns nil with another runner.
func (in *interview) askAPI(ctx context.Context, runner string) (*apiPart, error) {
	for _, f := range []struct{ flag, value string }{
		{"api-provider", in.APIProvider}, {"api-model", in.APIModel}, {"api-base-url", in.APIBaseURL}, {"api-key-file", in.APIKeyFile},
	} {
		if f.value == "" || runner == turn.API || runner == "" {
			continue
		}
		if err := in.Asker.Wrong("add --runner api", "--%s requires --runner api", f.flag); err != nil {
			return nil, err
		}
	}
	if runner != turn.API {
		return nil, nil
	}
	a := &apiPart{url: in.APIBaseURL, keyFile: in.APIKeyFile}
	var err error
	a.provider, err = in.Asker.Ask(ctx, in.APIProvider, terminal.Question{
		Flag: "api-provider", Text: "the API: anthropic, or openai for any OpenAI-compatible server", Guess: config.Anthropic, Check: isOneOf(config.Anthropic, config.OpenAI),
	})
	if err != nil {
		return nil, err
	}
	if err := in.askModel(ctx, a, in.APIModel); err != nil {
		return nil, err
	}
	return a, in.makeAbsolute(&a.keyFile)
}

// askModel asks for the model, unless given is set.
func (in *interview) askModel(ctx context.Context, a *apiPart, given string) (err error) {
	guess := a.model
	if guess == "" && a.provider == config.Anthropic {
		guess = turn.UsualModel()
	}
	a.model, err = in.Asker.Ask(ctx, given, terminal.Question{Flag: "api-model", Text: "the provider's name for the model", Guess: guess, Check: isText})
	return err
}

// askKey asks for the file of the API key, and for the key itself if the file is missing. Then it
// tries the API.
func (in *interview) askKey(ctx context.Context, handle string, a *apiPart, t turnPart) error {
	if a.keyFile == "" {
		if err := in.askKeyOf(ctx, handle, a); err != nil {
			return err
		}
	}
	return in.tryAPI(ctx, a, t)
}

// askKeyOf asks for a key that no flag names. A server of the user's own may need no key.
func (in *interview) askKeyOf(ctx context.Context, handle string, a *apiPart) error {
	own := a.url != ""
	if own && !in.Asker.CanAsk() {
		return nil
	}
	a.keyFile = in.secretFile(handle, "api-key")
	if err := in.makeAbsolute(&a.keyFile); err != nil || in.Print {
		return err
	}
	if _, err := os.Lstat(a.keyFile); err == nil {
		return nil
	}
	if !in.Asker.CanAsk() {
		in.Asker.Missing("--api-key-file", "the file with the provider's API key")
		return nil
	}
	return in.askKeyText(ctx, a)
}

// askKeyText asks for the key. An empty line means that the key comes later, or that the server
// needs no key.
func (in *interview) askKeyText(ctx context.Context, a *apiPart) (err error) {
	where, empty := a.provider, "leave empty to add it later"
	if a.url != "" {
		where, empty = a.url, "leave empty if it needs none"
	}
	a.key, err = in.askSecret(ctx, a.keyFile, fmt.Sprintf("the API key for %s (not shown; %s): ", where, empty))
	if err == nil && a.key == "" && a.url != "" {
		a.keyFile = ""
	}
	return err
}

// tryAPI asks the model API for its models, which is free. After an error, the user corrects the
// value or keeps it.
func (in *interview) tryAPI(ctx context.Context, a *apiPart, t turnPart) error {
	for in.canTry() && !in.Print {
		if _, err := os.Lstat(a.keyFile); a.keyFile != "" && a.key == "" && errors.Is(err, fs.ErrNotExist) {
			return nil // the key comes later
		}
		where := cmp.Or(a.url, a.provider)
		err := in.trial(ctx, where, func(ctx context.Context) error { return in.models(ctx, a, t) })
		if err == nil {
			return nil
		}
		if kept, err := in.Asker.Keep(ctx, apiHint(err, where), "use it anyway?"); kept || err != nil {
			return err
		}
		switch {
		case errors.Is(err, errNotListed):
			err = in.askModel(ctx, a, "")
		case react.KeyRefused(err) && a.key != "":
			err = in.askKeyText(ctx, a)
		case !react.KeyRefused(err) && a.url != "":
			a.url, err = in.Asker.Ask(ctx, "", terminal.Question{Flag: "api-base-url", Text: "the URL of the API", Guess: a.url, Check: isText})
		default:
			err = nil // the file may contain another key by now
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// models checks that the API lists the model.
func (in *interview) models(ctx context.Context, a *apiPart, t turnPart) error {
	d := &document{home: in.home}
	t.write(d)
	a.write(d)
	conf, err := in.Loader.Parse(in.config, d.String())
	if err != nil {
		return err
	}
	api, err := in.Loader.API(conf)
	if err != nil {
		return err
	}
	key := a.key
	if key == "" && a.keyFile != "" {
		if key, err = in.Loader.SecretFile(a.keyFile)(ctx); err != nil {
			return err
		}
	}
	models, err := api.Model(key, trialTime).Models(ctx)
	switch {
	case react.ListUnsupported(err):
		return nil
	case err != nil:
		return err
	case len(models) > 0 && !config.ListsModel(models, a.model):
		return fmt.Errorf("%w %s", errNotListed, a.model)
	}
	return nil
}

// apiHint adds a hint to an error of an API.
func apiHint(err error, where string) error {
	hint := "is " + where + " right, and is this machine online?"
	switch {
	case terminal.HintOf(err) != "":
		return err
	case errors.Is(err, errNotListed):
		hint = "check the model's name with the provider"
	case react.KeyRefused(err):
		hint = "is the key complete, and from this provider?"
	case isUnread(err):
		hint = "fix the file; it will be read again"
	}
	return terminal.WithHint(err, hint)
}
