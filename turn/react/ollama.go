package react

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// ollamaDefault is how many tokens Ollama reads by default, regardless of the model.
const ollamaDefault = 4096

// OllamaWindow asks the server at base whether it is Ollama, and how many tokens of a question
// it reads for a model: the loaded model's context length, the setting in the model's file, or
// Ollama's default. ok is false if the server is not Ollama or does not answer.
func OllamaWindow(ctx context.Context, base, model string) (window int, ok bool) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return 0, false
	}
	root := u.Scheme + "://" + u.Host
	var version struct {
		Version string `json:"version"`
	}
	if !ollamaAsk(ctx, http.MethodGet, root+"/api/version", nil, &version) || version.Version == "" {
		return 0, false
	}
	var loaded struct {
		Models []struct {
			Name    string `json:"name"`
			Context int    `json:"context_length"`
		} `json:"models"`
	}
	if ollamaAsk(ctx, http.MethodGet, root+"/api/ps", nil, &loaded) {
		for _, m := range loaded.Models {
			if strings.TrimSuffix(m.Name, ":latest") == strings.TrimSuffix(model, ":latest") && m.Context > 0 {
				return m.Context, true
			}
		}
	}
	var shown struct {
		Parameters string `json:"parameters"` // "num_ctx  8192", one per line
	}
	if !ollamaAsk(ctx, http.MethodPost, root+"/api/show", map[string]string{"model": model}, &shown) {
		return 0, false
	}
	for line := range strings.Lines(shown.Parameters) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "num_ctx" {
			if n, err := strconv.Atoi(f[1]); err == nil && n > 0 {
				return n, true
			}
		}
	}
	return ollamaDefault, true
}

// ollamaAsk asks Ollama's own API. It reports whether it could read the answer.
func ollamaAsk(ctx context.Context, method, url string, body, answer any) bool {
	var data []byte
	if body != nil {
		data, _ = json.Marshal(body) // a map of strings
	}
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(data))
	if err != nil {
		return false
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	defer res.Body.Close()
	return res.StatusCode == http.StatusOK && json.NewDecoder(io.LimitReader(res.Body, maxList)).Decode(answer) == nil
}
