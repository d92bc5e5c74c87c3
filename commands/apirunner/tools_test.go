package apirunner

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"agentstateloop/internal/secret"
)

// TestRedacted: neither a result nor an error of a tool holds a secret, because
// both go to the model's provider.
func TestRedacted(t *testing.T) {
	secrets := new(secret.Known)
	secrets.Learn("api", "sk-canary-4711")
	run := redacted(secrets, func(context.Context, json.RawMessage) (string, error) {
		return "the key is sk-canary-4711", errors.New("no file sk-canary-4711")
	})
	if text, err := run(t.Context(), nil); text != "the key is ***" || err == nil || err.Error() != "no file ***" {
		t.Errorf("%q, %v", text, err)
	}
}
