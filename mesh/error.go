package mesh

import (
	"fmt"
	"net/http"
	"time"
)

// Error is a mesh call that did not do what was asked. 401 and 403 come
// wrapped in a *state.CredentialError named "mesh".
type Error struct {
	Op         string        // "read mailbox", "send message", ...
	Code       int           // HTTP status; 0 when there was no answer
	RetryAfter time.Duration // what a 429 or 503 asked for; 0 when it did not say
	Err        error
}

func (e *Error) Error() string {
	switch {
	case e.Code == 0:
		return fmt.Sprintf("mesh: %s: %v", e.Op, e.Err)
	case e.Err == nil:
		return fmt.Sprintf("mesh: %s: answered %d %s", e.Op, e.Code, http.StatusText(e.Code))
	default:
		return fmt.Sprintf("mesh: %s: answered %d: %v", e.Op, e.Code, e.Err)
	}
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Temporary says whether the same call may succeed later: everything but a
// refusal of what was asked, which is a 4xx other than 408 and 429. An answer
// that is not a mesh's (garbage, a redirect) refuses nothing and is temporary.
func (e *Error) Temporary() bool {
	switch {
	case e.Code == http.StatusRequestTimeout, e.Code == http.StatusTooManyRequests:
		return true
	default:
		return e.Code < 400 || e.Code > 499
	}
}
