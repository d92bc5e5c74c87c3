package react

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// Models names the models that the API has, as far as one page of them tells.
// It costs nothing. Its error is a *Fault where the API said more than that.
func (m *Messages) Models(ctx context.Context) ([]string, error) {
	url := strings.TrimSuffix(cmp.Or(m.url, AnthropicURL), "/") + "/v1/models?limit=1000"
	return m.http.models(ctx, url, http.Header{"X-Api-Key": {m.http.key}, "Anthropic-Version": {"2023-06-01"}})
}

// Models names the models that the API has. It costs nothing. Its error is a
// *Fault where the API said more than that; servers need not know the question.
func (c *Chat) Models(ctx context.Context) ([]string, error) {
	header := http.Header{}
	if c.http.key != "" {
		header.Set("Authorization", "Bearer "+c.http.key)
	}
	return c.http.models(ctx, c.url+"/models", header)
}

// models reads a list as both APIs give it.
func (w *httpClient) models(ctx context.Context, url string, header http.Header) ([]string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, w.redactError(err)
	}
	req.Header = header
	res, err := w.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := json.NewDecoder(res.Body).Decode(&list); err != nil {
		return nil, fmt.Errorf("its list of models cannot be read: %w", err)
	}
	var names []string
	for _, model := range list.Data {
		names = append(names, model.ID)
	}
	return names, nil
}

// ListUnsupported says of an error of Models that the API is there and knows no such
// question, which says nothing against it.
func ListUnsupported(err error) bool {
	f, ok := errors.AsType[*Fault](err)
	return ok && (f.Status == http.StatusNotFound || f.Status == http.StatusMethodNotAllowed || f.Status == http.StatusNotImplemented)
}

// KeyRefused says of an error of Models that the key was not taken.
func KeyRefused(err error) bool { return classify(err) == refused }
