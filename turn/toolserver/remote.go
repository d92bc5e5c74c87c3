package toolserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agentstateloop/internal/plain"
)

// The bounds of one response of a remote server.
const (
	maxBody      = 64 << 20 // bytes
	maxBodyLines = 200_000
)

// address is the link to a remote server. It is the RoundTripper of its requests. Each request
// carries the token, and the token goes to no other host, because no redirect is followed.
type address struct {
	server Server
	token  string
	base   *http.Transport

	mu      sync.Mutex
	failure string // the fault of the last response, or ""
}

// dial reads the token of a remote server.
func (s Server) dial(ctx context.Context) (link, error) {
	a := &address{server: s, base: http.DefaultTransport.(*http.Transport).Clone()}
	if s.Token != nil {
		var err error
		if a.token, err = s.Token(ctx); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func (a *address) transport() mcp.Transport {
	return &mcp.StreamableClientTransport{
		Endpoint: a.server.URL,
		HTTPClient: &http.Client{
			Transport:     a,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		MaxRetries:           1,
		DisableStandaloneSSE: true, // we do not depend on any notification
		MaxEventSize:         maxMessage,
	}
}

func (a *address) renew() { a.note("") }

func (a *address) note(why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failure = why
}

func (a *address) fault() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failure
}

// broken reports whether the last response was not an answer. The next response may be one, in
// another session.
func (a *address) broken() bool { return a.fault() != "" }

func (a *address) close() { a.base.CloseIdleConnections() }

// RoundTrip sends one request with the token. It records the fault of the response, if any.
func (a *address) RoundTrip(req *http.Request) (*http.Response, error) {
	own, err := url.Parse(a.server.URL)
	if err != nil || req.URL.Scheme != own.Scheme || req.URL.Host != own.Host {
		return nil, errors.New("the request goes to another server")
	}
	if a.token != "" {
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	res, err := a.base.RoundTrip(req)
	if err != nil {
		if req.Context().Err() == nil {
			a.note(clip(err.Error(), maxWords))
		}
		return nil, err
	}
	if why := a.refusal(req, res); why != "" {
		a.note(why)
	}
	res.Body = &boundedBody{ReadCloser: res.Body, left: maxBody, lines: maxBodyLines, note: a.note}
	return res, nil
}

// refusal returns in words why a response is not an answer, or "".
func (a *address) refusal(req *http.Request, res *http.Response) string {
	if req.Method == http.MethodDelete {
		return "" // the end of a session, which a server need not support
	}
	status := fmt.Sprintf("%d %s", res.StatusCode, http.StatusText(res.StatusCode))
	switch code := res.StatusCode; {
	case code < http.StatusMultipleChoices:
		return ""
	case code < http.StatusBadRequest:
		to := clip(res.Header.Get("Location"), maxNoise)
		return fmt.Sprintf("it has moved (%s): set url to %s", status, to)
	case code == http.StatusUnauthorized && a.token == "":
		return fmt.Sprintf("it requires a token (%s): write the token to a file and set token_file; login with a browser is not supported", status)
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return fmt.Sprintf("it refused the token (%s): check token_file, token_env or token_command", status)
	case code == http.StatusNotFound && req.Header.Get("Mcp-Session-Id") == "":
		return fmt.Sprintf("no MCP server at this address (%s): check url", status)
	case code == http.StatusNotFound:
		return "the session has expired"
	}
	return "it answered " + strings.TrimSpace(status)
}

// boundedBody is a body that returns an error beyond its bounds.
type boundedBody struct {
	io.ReadCloser
	left  int64
	lines int
	note  func(string)
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 || b.lines <= 0 {
		why := fmt.Sprintf("its answer exceeds %s or %d lines", plain.Size(maxBody), maxBodyLines)
		b.note(why)
		return 0, errors.New(why)
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	b.lines -= bytes.Count(p[:n], []byte{'\n'})
	return n, err
}
