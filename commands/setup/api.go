package setup

import (
	"context"
	"fmt"
	"os"

	"agentstateloop/commands/config"
	"agentstateloop/commands/terminal"
	"agentstateloop/turn"
)

// apiPart is [api].
type apiPart struct {
	provider, model, url string
	keyFile              string // "": the server needs no key
	key                  string // to be written to keyFile; "": none
}

func (a *apiPart) write(d *document) {
	d.section("api")
	d.line("provider", a.provider, "anthropic | openai, which many others speak")
	if a.url != "" {
		d.line("base_url", a.url, "")
	}
	d.line("model", a.model, "")
	if a.keyFile != "" {
		d.line("key_file", path(a.keyFile), "mode 0600")
	}
}

// askAPI learns which model answers; nil with another runner.
func (in *interview) askAPI(ctx context.Context, runner string) (*apiPart, error) {
	for _, f := range []struct{ flag, value string }{
		{"api-provider", in.APIProvider}, {"api-model", in.APIModel}, {"api-base-url", in.APIBaseURL}, {"api-key-file", in.APIKeyFile},
	} {
		if f.value != "" && runner != turn.API {
			return nil, terminal.Usagef("add --runner api", "--%s works only with --runner api", f.flag)
		}
	}
	if runner != turn.API {
		return nil, nil
	}
	a := &apiPart{url: in.APIBaseURL, keyFile: in.APIKeyFile}
	var err error
	a.provider, err = in.Asker.Ask(ctx, in.APIProvider, terminal.Question{
		Flag: "api-provider", Text: "the API: anthropic, or openai, which many others speak", Guess: config.Anthropic, Check: isOneOf(config.Anthropic, config.OpenAI),
	})
	if err != nil {
		return nil, err
	}
	guess := ""
	if a.provider == config.Anthropic {
		guess = turn.UsualModel()
	}
	a.model, err = in.Asker.Ask(ctx, in.APIModel, terminal.Question{Flag: "api-model", Text: "the provider's name of the model", Guess: guess, Check: isText})
	if err != nil {
		return nil, err
	}
	return a, in.makeAbsolute(&a.keyFile)
}

// askKey asks where the API key is, and for the key itself if no file has it. A
// server of the user's own may need no key.
func (in *interview) askKey(ctx context.Context, handle string, a *apiPart) error {
	own := a.url != ""
	if a.keyFile != "" || own && !in.Asker.CanAsk() {
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
		return terminal.Usagef("see agentstateloop init --help", "--api-key-file is missing, and without a terminal it cannot be asked for")
	}
	where, empty := a.provider, "leave empty to add it later"
	if own {
		where, empty = a.url, "leave empty if it needs none"
	}
	var err error
	a.key, err = in.Asker.Secret(ctx, fmt.Sprintf("the API key of %s (not shown; %s): ", where, empty))
	if err == nil && a.key == "" && own {
		a.keyFile = ""
	}
	if err != nil || a.key == "" {
		return err
	}
	in.Loader.Secrets.Learn(a.keyFile, a.key)
	_, err = config.CheckSecret(a.key, "the key")
	return err
}
