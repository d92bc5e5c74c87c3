package state

import "time"

// SendingFailure is the time in which no mail can be sent: the server that takes our
// mail is down, or answers 4xx (docs/design.md, "The outbox"). A login that it denies
// is an outage of the credential "smtp" instead.
type SendingFailure struct {
	Since  time.Time `json:"since"`
	Reason string    `json:"reason,omitempty"` // of the last try
}
