package apirunner

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"agentstateloop/commands/config"
	"agentstateloop/internal/account"
	"agentstateloop/internal/secret"
)

// TestToolResultsAreRedacted checks that results and errors of a tool have no secret, because
// both go to the model's provider.
func TestToolResultsAreRedacted(t *testing.T) {
	secrets := new(secret.Known)
	secrets.Learn("api", "sk-canary-4711")
	run := redacted(secrets, func(context.Context, json.RawMessage) (string, error) {
		return "the key is sk-canary-4711", errors.New("no file sk-canary-4711")
	})
	if text, err := run(t.Context(), nil); text != "the key is ***" || err == nil || err.Error() != "no file ***" {
		t.Errorf("%q, %v", text, err)
	}
}

// TestToolEnvironHasNoKeys checks that programs of tools get neither the key of the API nor the token
// of a server.
func TestToolEnvironHasNoKeys(t *testing.T) {
	l := &config.Loader{Environ: []string{"A=a", "MODEL_KEY=k", "FAR_TOKEN=t"}, Account: func() (account.Account, error) { return account.Account{Home: "/", Known: true}, nil }, Secrets: new(secret.Known)}
	c, err := l.Parse("/agent.toml", "[api]\nkey_env = \"MODEL_KEY\"\n[tools.far]\nmcp = { url = \"https://a/\", token_env = \"FAR_TOKEN\" }\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(toolbox{loader: l, config: c}.environ(), " "); got != "A=a" {
		t.Errorf("%s", got)
	}
}
