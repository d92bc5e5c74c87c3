package hook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"

	"agentstateloop/internal/plain"
)

// Address is a hook that posts the body to a URL. An answer 2xx accepts the event.
type Address struct {
	URL         string // may hold TokenPlace
	ContentType string
	Headers     map[string]*template.Template // executed with a Data, one line each

	// Token, if set, is sent as a bearer token, or replaces TokenPlace. Secret, if set, signs
	// each request. Both are read at each call, and never stored.
	Token, Secret func(context.Context) (string, error)

	Now func() time.Time
}

// TokenPlace is the placeholder for the token in a URL.
const TokenPlace = "{token}"

// The headers of a request. The signature covers the timestamp, a dot and the body.
const (
	EventHeader     = "X-AgentStateLoop-Event"
	DeliveryHeader  = "X-AgentStateLoop-Delivery"
	TimestampHeader = "X-AgentStateLoop-Timestamp"
	SignatureHeader = "X-AgentStateLoop-Signature-256"
)

// Limits of an answer, in bytes.
const (
	maxAnswer       = 4 << 10
	maxAnswerHeader = 64 << 10
)

// maxRetryAfter limits the pause that a server may ask for.
const maxRetryAfter = time.Hour

func (a *Address) post(ctx context.Context, c Call, safeOutput func([]byte) string) error {
	request, err := a.request(ctx, c)
	if err != nil {
		return err
	}
	transport := newTransport()
	defer transport.CloseIdleConnections()
	client := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(request)
	if err != nil {
		return &Error{Reason: withoutURL(err)}
	}
	defer answer.Body.Close()
	return a.verdict(answer, safeOutput)
}

// newTransport returns an HTTP transport for a single request.
func newTransport() *http.Transport {
	return &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxAnswerHeader,
		DialContext: new(net.Dialer).DialContext, // each dial ends with ctx
	}
}

// request returns the request of a call, including its secrets.
func (a *Address) request(ctx context.Context, c Call) (*http.Request, error) {
	address, token := a.URL, ""
	if a.Token != nil {
		var err error
		if token, err = a.Token(ctx); err != nil {
			return nil, &Error{Reason: "its token cannot be read: " + err.Error()}
		}
		address = insertToken(address, token)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(c.Body))
	if err != nil {
		return nil, &Error{Reason: withoutURL(err)}
	}
	for name, t := range a.Headers {
		value, err := execute(t, c.Event)
		if err != nil {
			continue // deliver the event without the header that failed
		}
		request.Header.Set(name, plain.Shorten(plain.Line(string(value)), 1000))
	}
	request.Header.Set("Content-Type", a.ContentType)
	request.Header.Set("User-Agent", "agentStateLoop")
	request.Header.Set(EventHeader, c.Event.Event)
	request.Header.Set(DeliveryHeader, c.ID)
	if token != "" && !strings.Contains(a.URL, TokenPlace) {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return request, a.sign(ctx, request, c.Body)
}

// insertToken puts the token into an address, escaped for the path or for the query.
// secret.Disguises redacts both forms.
func insertToken(address, token string) string {
	path, query, queried := strings.Cut(address, "?")
	path = strings.ReplaceAll(path, TokenPlace, url.PathEscape(token))
	if !queried {
		return path
	}
	return path + "?" + strings.ReplaceAll(query, TokenPlace, url.QueryEscape(token))
}

// sign adds the timestamp and the signature, if there is a secret.
func (a *Address) sign(ctx context.Context, request *http.Request, body []byte) error {
	if a.Secret == nil {
		return nil
	}
	secret, err := a.Secret(ctx)
	if err != nil {
		return &Error{Reason: "its secret cannot be read: " + err.Error()}
	}
	at := strconv.FormatInt(a.Now().Unix(), 10)
	request.Header.Set(TimestampHeader, at)
	request.Header.Set(SignatureHeader, Signature(secret, at, body))
	return nil
}

// Signature returns the value of SignatureHeader.
func Signature(secret, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(timestamp + "."))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// retryStatuses are the status codes below 500 that allow a retry.
var retryStatuses = []int{http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests}

// verdict returns nil for an answer 2xx, and otherwise an *Error.
func (a *Address) verdict(answer *http.Response, safeOutput func([]byte) string) error {
	code := answer.StatusCode
	if code >= http.StatusOK && code < http.StatusMultipleChoices {
		return nil
	}
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswer)) // a partial text will do
	e := &Error{Reason: "the server answered " + answer.Status, Permanent: code < http.StatusInternalServerError && !slices.Contains(retryStatuses, code)}
	if code >= http.StatusMultipleChoices && code < http.StatusBadRequest {
		e.Reason += ", and redirects are not followed"
	} else if words := safeOutput(text); words != "" {
		e.Reason += ": " + words
	}
	if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.RetryAfter = time.Duration(min(seconds, int(maxRetryAfter/time.Second))) * time.Second
	} else if at, err := http.ParseTime(answer.Header.Get("Retry-After")); err == nil {
		e.RetryAfter = min(max(0, at.Sub(a.Now())), maxRetryAfter)
	}
	return e
}

// withoutURL returns an error of a request without its URL, which may hold a token.
func withoutURL(err error) string {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	return err.Error()
}
