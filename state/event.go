package state

import (
	"cmp"
	"slices"
	"time"

	"agentstateloop/internal/order"
)

// Event is something that happened. The code that sees it reports it to Step. The machine reacts to
// Events, never to errors.
//
// Each event is declared next to its apply method, which handles it.
type Event interface{ apply(m *machine) }

// inOrder returns the events in the order in which Step applies them.
func inOrder(events []Event) []Event {
	events = slices.Clone(events)
	order.Stable(events, func(a, b Event) int {
		ra, ta := rank(a)
		rb, tb := rank(b)
		return cmp.Or(cmp.Compare(ra, rb), ta.Compare(tb))
	})
	return events
}

// The ranks of events. Bookkeeping comes first, then arrivals by their time, then the end of the
// observation.
const (
	rankBookkeeping = iota
	rankArrival
	rankEnd
)

// ranked is an Event that is not bookkeeping.
type ranked interface {
	Event

	// rank returns the rank of the event, and the time of an arrival.
	rank() (int, time.Time)
}

// rank returns the rank of an event, and the time of an arrival.
func rank(e Event) (int, time.Time) {
	if r, ok := e.(ranked); ok {
		return r.rank()
	}
	return rankBookkeeping, time.Time{}
}

// Redactable is an Event with text that we did not write. It comes from a server, a command, an
// agent or a person. Such text may repeat a secret, and it is kept in the state and the history,
// shown and mailed.
type Redactable interface {
	Event

	// Redacted returns a copy of the event with redact applied to each such text.
	Redacted(redact func(string) string) Event
}

// Redact returns the events with redact applied to all text that we did not write. It does not
// change its arguments.
func Redact(events []Event, redact func(string) string) []Event {
	redacted := make([]Event, len(events))
	for i, e := range events {
		redacted[i] = redactEvent(e, redact)
	}
	return redacted
}

// redactEvent redacts one event, which may be nil.
func redactEvent(e Event, redact func(string) string) Event {
	if r, ok := e.(Redactable); ok {
		return r.Redacted(redact)
	}
	return e
}

// redacted returns the effect with redact applied to its texts. It does not
// change the bytes in File, which are sent as they were rendered.
func (e Effect) redacted(redact func(string) string) Effect {
	e.Text, e.Reason = redact(e.Text), redact(e.Reason)
	e.Files = slices.Clone(e.Files)
	for i := range e.Files {
		e.Files[i].FileName, e.Files[i].Place = redact(e.Files[i].FileName), redact(e.Files[i].Place)
	}
	e.Options = slices.Clone(e.Options)
	for i := range e.Options {
		e.Options[i] = redact(e.Options[i])
	}
	e.ResultFields = slices.Clone(e.ResultFields)
	for i := range e.ResultFields {
		e.ResultFields[i].Description = redact(e.ResultFields[i].Description)
	}
	return e
}

// redactedEffect is Effect.redacted for an effect that may be nil.
func redactedEffect(e *Effect, redact func(string) string) *Effect {
	if e == nil {
		return nil
	}
	copied := e.redacted(redact)
	return &copied
}
