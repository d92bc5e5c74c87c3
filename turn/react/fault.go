package react

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Fault is an error response from a model API.
type Fault struct {
	Status int    // of HTTP; 0 for a fault in the middle of a stream
	Type   string // the API's own name, such as "overloaded_error"
	Text   string // the message

	// RetryAfter is how long the API asks to wait; 0 if it does not.
	RetryAfter time.Duration
}

func (f *Fault) Error() string {
	text := cmp.Or(f.Text, f.Type, http.StatusText(f.Status), "an error without a reason")
	if f.Status == 0 {
		return text
	}
	return fmt.Sprintf("%d: %s", f.Status, text)
}

// faultClass describes what a failed request means for the loop.
type faultClass int

const (
	fatal     faultClass = iota // the same request will fail again
	transient                   // may pass: overload, a rate limit, the network
	refused                     // the credential, or the credit of its account
	tooLong                     // the conversation does not fit the model's window
)

// What the APIs write, in lower case. They are not regular expressions, because
// those would be compiled at each start of the program, even for an empty poll.
var (
	brokeWords = []string{"insufficient_quota", "insufficient credits", "credit balance is too low", "billing"}
	longWords  = []string{"prompt is too long", "context_length_exceeded", "context length", "context limit", "context window", "context size", "maximum number of tokens"}
	loginWords = []string{"authentication_error", "permission_error", "invalid_api_key"}
	badRequest = []string{"invalid_request", "not_found"}
	flagWords  = []string{"flagged", "moderation"}
)

func holds(text string, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
}

// classify returns the class of an error of Model.Answer. An error that is not a
// Fault is the network's.
func classify(err error) faultClass {
	f, ok := errors.AsType[*Fault](err)
	if !ok {
		return transient
	}
	words := strings.ToLower(f.Type + " " + f.Text)
	switch {
	case f.Status == http.StatusForbidden && holds(words, flagWords): // OpenRouter, about the content of the question
		return fatal
	case f.Status == http.StatusUnauthorized || f.Status == http.StatusForbidden || f.Status == http.StatusPaymentRequired:
		return refused
	case holds(words, brokeWords) || f.Status == 0 && holds(words, loginWords):
		return refused
	case f.Status == http.StatusTooManyRequests || f.Status == http.StatusRequestTimeout || f.Status == http.StatusConflict || f.Status >= http.StatusInternalServerError:
		return transient
	case f.Status == http.StatusRequestEntityTooLarge || holds(words, longWords):
		return tooLong
	case f.Status == 0 && !holds(words, badRequest):
		return transient
	}
	return fatal
}

// refusesShown reports whether a question may pass without the files that it shows: the same
// one will fail again, and the fault is not about money or a key.
func refusesShown(err error) bool {
	f, ok := errors.AsType[*Fault](err)
	class := classify(err)
	return ok && f.Status != http.StatusForbidden && (class == fatal || class == tooLong)
}

// errBrokenOff means that the stream ended before the answer did.
var errBrokenOff = errors.New("the connection broke off in the middle of the answer")

// faultFrom reads the error of either API, or what a proxy sends in its place. The
// fault has a Status if the error has one as its code.
func faultFrom(body []byte) *Fault {
	var said struct {
		Error struct {
			Type    string `json:"type"`
			Code    any    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &said) != nil || said.Error.Message == "" {
		var short struct {
			Error string `json:"error"`
		}
		_ = json.Unmarshal(body, &short)
		return &Fault{Text: cmp.Or(short.Error, string(body))}
	}
	f := &Fault{Type: said.Error.Type, Text: said.Error.Message}
	f.coded(said.Error.Code)
	return f
}

// maxStatus is the highest status of HTTP.
const maxStatus = 599

// coded takes in the code of an error: a name of the API's, or a status of HTTP.
func (f *Fault) coded(code any) {
	switch code := code.(type) {
	case string:
		if code != f.Type {
			f.Type = strings.TrimSpace(f.Type + " " + code)
		}
	case int:
		f.coded(float64(code))
	case float64:
		if code >= http.StatusBadRequest && code < maxStatus+1 {
			f.Status = int(code)
		}
	}
}
