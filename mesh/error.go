package mesh

import (
	"fmt"
	"net/http"
	"time"
)

// Error is the error of a mesh call. The error for an answer 401 or 403 is wrapped in a
// *state.CredentialError named "mesh".
type Error struct {
	Op         string        // "read mailbox", "send message", ...
	Code       int           // HTTP status; 0 if the call got no answer
	RetryAfter time.Duration // the Retry-After of a 429 or 503; 0 if the header is missing
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

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Temporary reports whether the same call may succeed later. Only a refusal is permanent: any
// 4xx except 408 and 429. An answer that does not come from a mesh, such as garbage or a
// redirect, is not a refusal, so it is temporary.
func (e *Error) Temporary() bool {
	switch {
	case e.Code == http.StatusRequestTimeout, e.Code == http.StatusTooManyRequests:
		return true
	default:
		return e.Code/100 != 4
	}
}
