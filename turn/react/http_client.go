package react

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"agentstateloop/internal/lazy"
	"agentstateloop/internal/plain"
)

// errStalled is the cause of a request that ended because no data arrived.
var errStalled = errors.New("timeout: the API stopped sending data")

const (
	maxFault     = 64 << 10 // bytes read of an error's body
	maxFaultText = 500      // bytes quoted of it
	maxBody      = 64 << 20 // bytes of an answer's stream
	maxLines     = 2 << 20  // lines of an answer's stream; an event for one token has three
)

// httpClient makes the requests of a Model. It turns an error response into a *Fault,
// bounds the body, and ends a request with errStalled if no data arrives during stall.
type httpClient struct {
	client *http.Client
	key    string // redacted in the API's texts
	stall  time.Duration
}

func newHTTPClient(key string, stall time.Duration) *httpClient {
	return &httpClient{key: key, stall: stall, client: &http.Client{
		// The key must not follow a redirect to another server.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Do is http.Client.Do with the guarantees of httpClient.
func (w *httpClient) Do(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	timer := time.AfterFunc(w.stall, func() { cancel(errStalled) })
	res, err := w.client.Do(req.WithContext(ctx))
	if err != nil {
		timer.Stop()
		if cause := context.Cause(ctx); cause != nil {
			return nil, cause
		}
		cancel(nil)
		return nil, w.redactError(err)
	}
	all := &limitedBody{ReadCloser: res.Body, left: maxBody, lines: maxLines, ctx: ctx, cancel: cancel, timer: timer, stall: w.stall}
	stream := bufio.NewReader(all)
	if res.StatusCode/100 == 2 {
		// A POST requests a stream, and a stream never begins with a brace.
		first, _ := stream.Peek(1)
		if page := isHTML(res.Header, first); !page && (req.Method != http.MethodPost || string(first) != "{") {
			res.Body = struct {
				io.Reader
				io.Closer
			}{stream, all}
			return res, nil
		}
	}
	defer all.Close()
	most := int64(maxFault)
	if res.StatusCode/100 == 2 {
		most = maxAnswer // the whole answer of a server that does not stream
	}
	text, _ := io.ReadAll(io.LimitReader(stream, most))
	if isHTML(res.Header, text) {
		return nil, w.notAPI(res.StatusCode, text)
	}
	if res.StatusCode/100 == 2 {
		return nil, &wholeError{text, w.notStream(text)}
	}
	f := faultFrom(text)
	f.Status, f.Text = res.StatusCode, w.clean(f.Text)
	f.RetryAfter = max(f.RetryAfter, headerWait(res.Header, time.Now()))
	if to := res.Header.Get("Location"); res.StatusCode/100 == 3 && to != "" {
		f.Text = "the API has moved: set base_url to the start of " + w.clean(to)
	}
	return nil, f
}

// send makes a request with the guarantees of Do.
func (w *httpClient) send(ctx context.Context, method, url string, body []byte, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, w.redactError(err)
	}
	req.Header = header
	return w.Do(req)
}

// post sends a question in this shape and returns the response with the stream. header is added to
// the usual one.
func (w *httpClient) post(ctx context.Context, url string, question any, shape Shape, header http.Header) (*http.Response, error) {
	body, err := shape.apply(question)
	if err != nil {
		return nil, err
	}
	header.Set("User-Agent", "agentStateLoop")
	header.Set("Content-Type", "application/json")
	shape.addHeaders(header)
	return w.send(ctx, http.MethodPost, url, body, header)
}

// wholeError is the fault of a server that answers with JSON instead of a stream. body is the
// answer.
type wholeError struct {
	body  []byte
	fault *Fault
}

func (e *wholeError) Error() string { return e.fault.Error() }

func (e *wholeError) Unwrap() error { return e.fault }

// wholeAnswer returns the body of an answer that arrived whole, or nil.
func wholeAnswer(err error) []byte {
	if e, ok := errors.AsType[*wholeError](err); ok {
		return e.body
	}
	return nil
}

// isHTML reports whether a response with this beginning is a web page.
func isHTML(h http.Header, beginning []byte) bool {
	return strings.HasPrefix(h.Get("Content-Type"), "text/html") || len(beginning) > 0 && beginning[0] == '<'
}

var pageTitle = lazy.NewRegexp(`(?is)<title[^>]*>(.*?)</title>`)

// notAPI returns the fault of an address that answers with an HTML page.
func (w *httpClient) notAPI(status int, page []byte) *Fault {
	text := "the server answered with an HTML page"
	if m := pageTitle.Get().FindSubmatch(page); m != nil {
		text += fmt.Sprintf(" (%q)", w.clean(string(m[1])))
	}
	text += ": "
	if status/100 == 2 {
		text += "check base_url, which often ends with /v1"
		status = http.StatusNotFound
	} else {
		text += "it may come from a proxy"
	}
	return &Fault{Status: status, Text: text}
}

// streamFault returns the fault that a server sent in the middle of a stream.
func (w *httpClient) streamFault(data []byte) *Fault {
	f := faultFrom(data)
	f.Text = w.clean(f.Text)
	return f
}

// notStream returns the fault of a server that reports success and sends JSON instead of a
// stream: an error, or a whole answer.
func (w *httpClient) notStream(text []byte) *Fault {
	f := w.streamFault(text)
	if f.Text == w.clean(string(text)) {
		f = &Fault{Status: http.StatusOK, Text: "expected a stream, got JSON: " + f.Text}
	}
	return f
}

// fault returns the error of a request that failed with err: the cause of ctx, a *Fault, or err
// without the key.
func (w *httpClient) fault(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if f, ok := errors.AsType[*Fault](err); ok {
		return f
	}
	return w.redactError(err)
}

// limitedBody is a body that ends with an error after left bytes or lines, or when no data
// arrives during stall. A line, even an empty one, costs its reader much more time than its
// bytes.
type limitedBody struct {
	io.ReadCloser
	left   int64
	lines  int
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	stall  time.Duration
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("answer exceeds %d bytes", maxBody)
	}
	if b.lines <= 0 {
		return 0, fmt.Errorf("answer exceeds %d lines", maxLines)
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	b.lines -= bytes.Count(p[:n], []byte{'\n'})
	b.timer.Reset(b.stall)
	if cause := context.Cause(b.ctx); err != nil && err != io.EOF && cause != nil {
		err = cause
	}
	return n, err
}

func (b *limitedBody) Close() error {
	b.timer.Stop()
	b.cancel(nil)
	return b.ReadCloser.Close()
}

// redactError returns err without the key, which a user may have put into a URL.
func (w *httpClient) redactError(err error) error {
	if w.key == "" || !strings.Contains(err.Error(), w.key) {
		return err
	}
	return errors.New(w.clean(err.Error()))
}

// clean returns text as one line of at most maxFaultText bytes, with the key redacted.
func (w *httpClient) clean(text string) string {
	if w.key != "" {
		text = strings.ReplaceAll(text, w.key, "***")
	}
	text = plain.Line(text)
	if len(text) > maxFaultText {
		return plain.Cut(text, maxFaultText) + "…"
	}
	return text
}

// headerWait returns the wait that the headers of a response ask for, or 0.
func headerWait(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return time.Duration(min(ms, maxRetrySeconds*1000) * float64(time.Millisecond))
	}
	if wait := parseRetryAfter(h.Get("Retry-After"), now); wait > 0 {
		return wait
	}
	var longest time.Duration
	for name, values := range h {
		name = strings.ToLower(name)
		if !strings.Contains(name, "ratelimit") || !strings.Contains(name, "reset") || hasRemaining(h, name) {
			continue
		}
		longest = max(longest, parseReset(values[0], now))
	}
	return longest
}

// hasRemaining reports whether the limit of a reset header is not used up, so that another limit
// caused the fault.
func hasRemaining(h http.Header, reset string) bool {
	remaining := h.Get(strings.Replace(reset, "reset", "remaining", 1))
	return remaining != "" && remaining != "0"
}

// parseReset reads the time until a limit resets. value is a duration ("6m0s"), seconds, a Unix
// time in seconds or milliseconds, or a date.
func parseReset(value string, now time.Time) time.Duration {
	if d, err := time.ParseDuration(value); err == nil {
		return max(0, d)
	}
	if at, err := time.Parse(time.RFC3339, value); err == nil {
		return max(0, at.Sub(now))
	}
	n, err := strconv.ParseFloat(value, 64)
	switch {
	case err != nil || n <= 0:
		return 0
	case n > 1e11:
		return max(0, time.UnixMilli(int64(min(n, maxUnix*1000))).Sub(now))
	case n > 1e8:
		return max(0, time.Unix(int64(n), 0).Sub(now))
	}
	return time.Duration(min(n, maxRetrySeconds) * float64(time.Second))
}

// parseRetryAfter reads seconds or a date (RFC 9110 section 10.2.3).
func parseRetryAfter(header string, now time.Time) time.Duration {
	if s, err := strconv.ParseFloat(header, 64); err == nil && s > 0 {
		return time.Duration(min(s, 1e6) * float64(time.Second))
	}
	if at, err := http.ParseTime(header); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
