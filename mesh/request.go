package mesh

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentstateloop/internal/plain"
	"agentstateloop/internal/secret"
	"agentstateloop/state"
)

// request is one call of the profile.
type request struct {
	op           string
	method, path string // path is escaped
	query        string
	body         any        // nil: an empty body
	into         any        // nil: the answer's body is ignored
	date         *time.Time // receives the answer's Date; may be nil
	receipt      bool       // into is a receipt; it stays empty if the answer has no receipt
	accept       []int
	wait         time.Duration // how long the server may delay its answer

	content io.Reader                  // the body as bytes, instead of body
	length  int64                      // of content
	receive func(*http.Response) error // reads the answer, instead of into
}

// do makes the call. Timeout limits its time, MaxMailbox the size of the answer.
func (c *Client) do(ctx context.Context, r request) error {
	caller := ctx
	timeout := c.Timeout
	if timeout <= 0 {
		timeout = 30 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout+r.wait)
	defer cancel()

	token, err := c.bearer(ctx)
	if err != nil && caller.Err() != nil {
		return &Error{Op: r.op, Err: context.Cause(caller)} // the caller gave up; the token may be valid
	}
	if err != nil {
		return &state.CredentialError{Name: "mesh", Err: fmt.Errorf("read token: %w", err)}
	}
	req, err := r.build(ctx, c.URL, c.KeysOut)
	if err != nil {
		return &Error{Op: r.op, Err: err}
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := c.client().Do(req)
	if err != nil {
		return &Error{Op: r.op, Err: hideToken(token, transportCause(err))}
	}
	defer resp.Body.Close()

	if !slices.Contains(r.accept, resp.StatusCode) {
		return c.refusal(r.op, resp, token)
	}
	if r.date != nil {
		*r.date, _ = http.ParseTime(resp.Header.Get("Date")) // zero if the header is missing
	}
	read := func() error { return r.read(resp, c.KeysIn) }
	if r.receive != nil {
		read = func() error { return r.receive(resp) }
	}
	if err := read(); err != nil {
		return &Error{Op: r.op, Code: resp.StatusCode, Err: hideToken(token, err)}
	}
	return nil
}

func (r request) build(ctx context.Context, base string, keys Keys) (*http.Request, error) {
	u, err := url.Parse(strings.TrimSuffix(base, "/") + r.path)
	if err != nil {
		// url.Error quotes the whole URL, including a password.
		return nil, errors.New("invalid mesh url: use one like http://127.0.0.1:8801")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("the mesh url is not an http address: use one like http://127.0.0.1:8801")
	}
	u.RawQuery = r.query
	var body io.Reader
	if r.body != nil {
		b, err := keys.encode(r.body)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), body)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.content != nil {
		req.Body, req.ContentLength = io.NopCloser(r.content), r.length
		if r.length == 0 {
			req.Body = http.NoBody
		}
		req.Header.Set("Content-Type", "application/octet-stream")
		req.Header.Set("Expect", "100-continue") // so that a mesh can refuse the file without reading it
	}
	req.Header.Set("Accept", "application/json")
	if r.receive != nil {
		req.Header.Set("Accept", "application/octet-stream")
	}
	return req, nil
}

// read decodes the answer's body, which must be a JSON object. Another service on the port may
// answer 200 with its own page; that service has not taken our message.
func (r request) read(resp *http.Response, keys Keys) error {
	if r.method == http.MethodDelete && resp.StatusCode != http.StatusOK {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxMailbox+1))
	if err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if len(body) > MaxMailbox {
		return fmt.Errorf("answer exceeds %d bytes", MaxMailbox)
	}
	if (r.into == nil || r.receipt) && len(body) == 0 || r.receipt && !isPage(resp, body) && !isObject(resp, body) {
		return nil
	}
	if e := resp.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return fmt.Errorf("answer has the unexpected Content-Encoding %s", quoteShort(e))
	}
	if !isJSON(resp.Header.Get("Content-Type")) {
		return fmt.Errorf("answer is %s, not JSON: check the url in [mesh]", quoteShort(resp.Header.Get("Content-Type")))
	}
	if !isObject(resp, body) {
		return errors.New("answer is not a JSON object: check the url in [mesh]")
	}
	if r.into == nil {
		return nil
	}
	decode := func(body []byte, keys Keys) error { return keys.decode(body, r.into) }
	switch into := r.into.(type) {
	case *Mailbox:
		decode = into.decode
	case *onlineList:
		decode = into.decode
	}
	if err := decode(body, keys); err != nil {
		return fmt.Errorf("decode answer: %s", foreignLine(err.Error())) // the error can quote the answer
	}
	return nil
}

// isObject reports whether an answer is a JSON object.
func isObject(resp *http.Response, body []byte) bool {
	return isJSON(resp.Header.Get("Content-Type")) && bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{"))
}

// isPage reports whether an answer is an HTML page, which a mesh never sends.
func isPage(resp *http.Response, body []byte) bool {
	t, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && t == "text/html" || bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("<"))
}

// quoteShort quotes a header of the answer. It does not truncate a long header: a truncated
// token could not be recognized as a secret.
func quoteShort(s string) string {
	const maxQuoted = 80
	if len(s) > maxQuoted {
		return "a value of more than 80 bytes"
	}
	return strconv.Quote(s)
}

func isJSON(contentType string) bool {
	t, _, err := mime.ParseMediaType(contentType)
	return err == nil && (t == "application/json" || strings.HasSuffix(t, "+json"))
}

// The limits for reading a refusal.
const (
	maxRetryAfter = 3600    // seconds of its Retry-After
	maxRefusal    = 4 << 10 // bytes of its body
)

// refusal returns the error for an answer with a status that is not accepted.
func (c *Client) refusal(op string, resp *http.Response, token string) error {
	e := &Error{Op: op, Code: resp.StatusCode}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
		e.RetryAfter = time.Duration(min(s, maxRetryAfter)) * time.Second
	}
	var answer struct {
		Error string `json:"error"`
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // after a read error, only the reason is missing
	if json.Unmarshal(body, &answer) == nil && answer.Error != "" {
		e.Err = hideToken(token, errors.New(answer.Error))
		e.Err = errors.New(foreignLine(e.Err.Error()))
	}
	if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
		c.forget(token)
		return &state.CredentialError{Name: "mesh", Err: e}
	}
	return e
}

// hideToken returns err, or another error if err contains the token. Many errors quote a
// foreign answer, which may echo our request.
func hideToken(token string, err error) error {
	echoes := func(form string) bool { return strings.Contains(err.Error(), form) }
	if slices.ContainsFunc(secret.Disguises(token), echoes) {
		return errors.New("answer not shown: it contains our token")
	}
	return err
}

// foreignLine returns foreign text as one short line, for an error.
func foreignLine(s string) string { return plain.Line(plain.Cut(s, 200)) }

// transportCause returns err without the wrapper that repeats the URL: the query
// of a long poll is noise, and the address may contain a password.
func transportCause(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// bearer returns the token. It reads the token if it is not cached.
func (c *Client) bearer(ctx context.Context) (string, error) {
	if c.Token == nil {
		return "", nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token != "" {
		return c.token, nil
	}
	token, err := c.Token(ctx)
	if err != nil {
		return "", err
	}
	token = strings.TrimSpace(token)
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", errors.New("it contains a space, a line break or a byte that is not allowed in a header")
	}
	c.token = token
	return token, nil
}

// forget drops a refused token. The next call reads the token again.
func (c *Client) forget(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token == token {
		c.token = ""
	}
}

// client returns the HTTP client. The first call makes it.
func (c *Client) client() *http.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.http == nil {
		c.http = plainClient(&net.Dialer{})
	}
	return c.http
}
