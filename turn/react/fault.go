package react

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"agentstateloop/internal/plain"
	"agentstateloop/turn"
)

// Fault is an error response from a model API.
type Fault struct {
	Status int    // HTTP status; 0 for a fault in the middle of a stream
	Type   string // the API's name for the fault, such as "overloaded_error"
	Text   string // the message
	Param  string // the member of the request at fault, if the API names it

	// RetryAfter is the wait that the API asks for; 0 if it does not ask.
	RetryAfter time.Duration
}

func (f *Fault) Error() string {
	text := cmp.Or(f.Text, f.Type, http.StatusText(f.Status), "unknown error")
	if f.Status == 0 {
		return text
	}
	return fmt.Sprintf("%d: %s", f.Status, text)
}

// faultClass tells the loop how to react to a failed request.
type faultClass int

const (
	fatal        faultClass = iota // the same request will fail again
	transient                      // may pass: overload, a rate limit, a network error
	refused                        // a problem with the credential or its account's credit
	tooLongError                   // the conversation does not fit the model's window
)

// Phrases in the errors of the APIs, in lower case. They are not regular expressions, because
// every start of the program would compile those, even for an empty poll.
var (
	creditWords  = []string{"insufficient_quota", "insufficient credits", "credit balance is too low", "billing"}
	tooLongWords = []string{"prompt is too long", "too many tokens", "input is too long", "maximum context", "exceeds the available context", "exceed context", "context_length_exceeded", "context length", "context limit", "context window", "context size", "maximum number of tokens"}
	loginWords   = []string{"authentication_error", "permission_error", "invalid_api_key"}
	badRequest   = []string{"invalid_request", "not_found"}
	flagWords    = []string{"flagged", "moderation"}
)

func containsAny(text string, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
}

// classify returns the class of an error of Model.Answer. Errors other than a Fault are network
// errors.
func classify(err error) faultClass {
	f, ok := errors.AsType[*Fault](err)
	if !ok {
		return transient
	}
	words := strings.ToLower(f.Type + " " + f.Text)
	switch {
	case f.Status == http.StatusForbidden && containsAny(words, flagWords): // OpenRouter, about the content of the question
		return fatal
	case f.Status == http.StatusUnauthorized || f.Status == http.StatusForbidden || f.Status == http.StatusPaymentRequired:
		return refused
	case (containsAny(words, creditWords) && !f.isTemporary(words)) || f.Status == 0 && containsAny(words, loginWords):
		return refused
	case f.Status == http.StatusTooManyRequests || f.Status == http.StatusRequestTimeout || f.Status == http.StatusConflict || f.Status >= http.StatusInternalServerError:
		return transient
	case f.Status == http.StatusRequestEntityTooLarge || containsAny(words, tooLongWords):
		return tooLongError
	case f.Status == 0 && !containsAny(words, badRequest):
		return transient
	}
	return fatal
}

// isTemporary reports whether a quota fault is temporary. Google's temporary quota faults
// mention plan and billing, too.
func (f *Fault) isTemporary(words string) bool {
	return f.Status == http.StatusTooManyRequests && !strings.Contains(words, "insufficient_quota") &&
		(f.RetryAfter > 0 || strings.Contains(words, "resource_exhausted"))
}

// isVague reports whether a fault may mean that the question is too long, whatever its text.
func isVague(err error) bool {
	f, ok := errors.AsType[*Fault](err)
	return ok && classify(err) == fatal && (f.Status == http.StatusBadRequest || f.Status == http.StatusUnprocessableEntity)
}

// markLimited marks the event of a temporary fault.
func markLimited(e turn.Event, err error, now time.Time) turn.Event {
	if _, ours := errors.AsType[*internalError](err); ours || classify(err) != transient {
		return e
	}
	f, ok := errors.AsType[*Fault](err)
	e.Limited = ok && f.Status == http.StatusTooManyRequests
	e.Overload = !e.Limited
	if ok && f.RetryAfter > 0 {
		e.Until = now.Add(f.RetryAfter)
	}
	return e
}

// refusesFiles reports whether a question may succeed without its files: the same question will
// fail again, and the fault is not about money or a key.
func refusesFiles(err error) bool {
	f, ok := errors.AsType[*Fault](err)
	class := classify(err)
	return ok && f.Status != http.StatusForbidden && (class == fatal || class == tooLongError)
}

// errBrokenOff means that the stream ended before the answer did.
var errBrokenOff = errors.New("connection lost in the middle of the answer")

// faultFrom reads an API's error in any of the known forms, or a proxy's text in its place. The
// fault has a Status if the error has an HTTP status as its code.
func faultFrom(body []byte) *Fault {
	r := &chunkReader{}
	top, ok := firstObject(body)
	if !ok {
		return &Fault{Text: string(body)}
	}
	if errs := r.list("errors", top["errors"]); len(errs) > 0 {
		top = errs[0]
	}
	object := top
	var inner members
	switch err := top["error"]; {
	case json.Unmarshal(err, &inner) == nil && inner != nil:
		object = inner
	case !isNull(err) && isNull(top["message"]):
		object = members{"message": err}
		if reason := top["error_description"]; !isNull(reason) {
			object["message"] = reason
		}
	}
	f := &Fault{Type: r.text("type", object["type"]), Param: r.text("param", object["param"])}
	for _, name := range []string{"message", "detail", "msg", "title"} {
		if f.Text == "" {
			f.Text = plain.Line(r.text(name, object[name]))
		}
	}
	if f.Text == "" {
		return &Fault{Text: string(body)}
	}
	f.addCode(r.text("code", object["code"]))
	f.addCode(r.text("status", object["status"]))
	f.RetryAfter = memberWait(object, top)
	return f
}

// memberWait returns the wait that an error's members ask for, or 0.
func memberWait(objects ...members) time.Duration {
	r := &chunkReader{}
	now := time.Now()
	for _, o := range objects {
		for _, name := range []string{"resets_in_seconds", "retry_after", "retry_after_seconds"} {
			if s := r.number(name, o[name]); s > 0 {
				return time.Duration(min(s, maxRetrySeconds) * float64(time.Second))
			}
		}
		if at := r.number("resets_at", o["resets_at"]); at > 0 {
			return time.Unix(int64(min(at, maxUnix)), 0).Sub(now)
		}
		for _, detail := range r.list("details", o["details"]) { // Google
			if wait, err := time.ParseDuration(r.text("retryDelay", detail["retryDelay"])); err == nil && wait > 0 {
				return wait
			}
		}
		if at := turn.LimitEnd(r.text("message", o["message"]), now); !at.IsZero() {
			return at.Sub(now)
		}
	}
	return 0
}

// Bounds of a server's times, so that sums do not overflow.
const (
	maxRetrySeconds = 1e6
	maxUnix         = 1 << 36
)

// maxStatus is the highest HTTP status.
const maxStatus = 599

// addCode adds the code of an error: a name from the API, or an HTTP status.
func (f *Fault) addCode(code string) {
	status, err := strconv.Atoi(strings.TrimSuffix(code, ".0"))
	switch {
	case err == nil && status >= http.StatusBadRequest && status <= maxStatus:
		f.Status = status
	case err != nil && code != "" && code != f.Type:
		f.Type = strings.TrimSpace(f.Type + " " + code)
	}
}
