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
	"agentstateloop/turn/react"
)

// errNotListed reports a model that the provider does not list.
var errNotListed = errors.New("the API does not list the model")

// tryAPI asks the model API for its models, which is free. After an error, the user corrects the
// value or keeps it.
func (in *interview) tryAPI(ctx context.Context, a *apiPart, t turnPart) error {
	for in.reaches() && !in.Print {
		if _, err := os.Lstat(a.keyFile); a.keyFile != "" && a.key == "" && errors.Is(err, fs.ErrNotExist) {
			return nil // the key comes later
		}
		where := cmp.Or(a.url, a.provider)
		err := in.trial(ctx, where, func(ctx context.Context) error { return in.models(ctx, a, t) })
		if err == nil {
			return nil
		}
		if kept, err := in.Asker.Keep(ctx, apiHint(err, where), "keep it as it is?"); kept || err != nil {
			return err
		}
		switch {
		case errors.Is(err, errNotListed):
			err = in.askModel(ctx, a, "")
		case react.KeyRefused(err) && a.key != "":
			err = in.typeKey(ctx, a)
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
	hint := "is " + where + " right, and this machine online?"
	switch {
	case terminal.HintOf(err) != "":
		return err
	case errors.Is(err, errNotListed):
		hint = "look up its name at the provider"
	case react.KeyRefused(err):
		hint = "is the key whole, and of this provider?"
	case unread(err):
		hint = "correct the file; it is read again"
	}
	return terminal.WithHint(err, hint)
}
