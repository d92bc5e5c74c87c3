package state

import "time"

// How long a mail whose fetch has failed waits for the next try.
const (
	firstRefetch = time.Minute
	maxRefetch   = 6 * time.Hour
)

// Failure is a mail whose fetch fails (docs/design.md, "Keys and the cursor").
type Failure struct {
	Tries  int       `json:"tries"`
	Since  time.Time `json:"since,omitzero"`   // the first failure
	Next   time.Time `json:"next,omitzero"`    // when it is tried again
	Reason string    `json:"reason,omitempty"` // of the last one
	Told   Telling   `json:"told,omitempty"`

	// After is a time before which the mail cannot have come; zero if none is
	// known.
	After time.Time `json:"after,omitzero"`

	// Missed is set when the last session did not show the mail.
	Missed bool `json:"missed,omitempty"`
}

// Telling is what the operator has heard about a mail that cannot be fetched.
type Telling int

// The stages of telling. Each is reached once.
const (
	Untold    Telling = iota
	ToldFirst         // after the third failure
	ToldLater         // after a day of failures
)

// Again returns the failure with one more try, which failed at now. Each pause is
// twice as long as the one before, from a minute up to six hours.
func (f Failure) Again(now time.Time, reason string) Failure {
	if f.Since.IsZero() {
		f.Since = now.UTC()
	}
	f.Tries++
	pause := firstRefetch
	for n := 1; n < f.Tries && pause < maxRefetch; n++ {
		pause *= 2
	}
	f.Next = now.UTC().Add(min(pause, maxRefetch))
	f.Reason, f.Missed = reason, false
	return f
}

// Due reports whether the mail is to be tried again at now. A poll may come a
// little early, as cron does.
func (f Failure) Due(now time.Time) bool { return !now.Before(f.Next.Add(-dueSlack)) }
