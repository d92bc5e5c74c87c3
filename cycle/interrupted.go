package cycle

import (
	"context"
	"slices"

	"agentstateloop/state"
)

// ErrInterrupted means that a signal ended a poll. Its recorded results count, and the next
// poll goes on.
var ErrInterrupted error = interrupted{}

// interrupted is an error about a context that was cancelled.
type interrupted struct{}

func (interrupted) Error() string { return "interrupted" }
func (interrupted) Unwrap() error { return context.Canceled }

// withoutFaults returns the events of an interrupted cycle without its failures: the end of the
// cycle cut the connection or the program. It keeps the permanent refusals of a server, and
// mails that may have been sent.
func withoutFaults(events []state.Event) []state.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e state.Event) bool {
		switch e := e.(type) {
		case state.SourceFailed, state.CredentialFailed:
			return true
		case state.SendFailed:
			return !e.Unknown && !e.Permanent
		case state.Scheduled:
			return e.Reason != ""
		case state.Compacted:
			return e.Reason != ""
		}
		return false
	})
}
