package react

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Models returns the names of the API's models, from one page of its list. The request is free
// of charge. The error is a *Fault if the API sent an error response.
func (m *Messages) Models(ctx context.Context) ([]string, error) {
	url := strings.TrimSuffix(cmp.Or(m.url, AnthropicURL), "/") + "/v1/models?limit=1000"
	return m.http.models(ctx, url, http.Header{"X-Api-Key": {m.http.key}, "Anthropic-Version": {messagesVersion}})
}

// Models returns the names of the API's models. The request is free of charge. The error is a
// *Fault if the API sent an error response. Some servers do not have this list; see
// ListUnsupported.
func (c *Chat) Models(ctx context.Context) ([]string, error) {
	header := http.Header{}
	if c.http.key != "" {
		header.Set("Authorization", "Bearer "+c.http.key)
	}
	return c.http.models(ctx, c.url+"/models", header)
}

// maxList bounds a list of models, in bytes. The longest known list has a few hundred
// kilobytes.
const maxList = 8 << 20

// models reads a list of models; both APIs use the same form.
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
	if err := json.NewDecoder(io.LimitReader(res.Body, maxList)).Decode(&list); err != nil {
		return nil, fmt.Errorf("read the first %d bytes of the list of models: %w", maxList, err)
	}
	var names []string
	for _, model := range list.Data {
		names = append(names, model.ID)
	}
	return names, nil
}

// ListUnsupported reports whether an error of Models means that the API has no list of models.
// The API may work nevertheless.
func ListUnsupported(err error) bool {
	f, ok := errors.AsType[*Fault](err)
	return ok && (f.Status == http.StatusNotFound || f.Status == http.StatusMethodNotAllowed || f.Status == http.StatusNotImplemented)
}

// KeyRefused reports whether an error of Models means that the API refused the key.
func KeyRefused(err error) bool { return classify(err) == refused }
