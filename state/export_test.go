package state

import "time"

// What the tests of package state_test use of the machine besides its exported
// names. They are outside the package because package statetest imports it.

const (
	CountedKept   = countedKept
	DaysKept      = daysKept
	MaxBackoff    = maxBackoff
	MaxDeferral   = maxDeferral
	MailsAnHour   = mailsAnHour
	MonthsKept    = monthsKept
	MaxRejections = maxRejections
	SeenFor       = seenFor
	TokenLife     = tokenLife
	UnpricedKept  = unpricedKept
)

// HasWork reports whether a machine in state s has work.
func HasWork(s State, p Policy, now time.Time) bool {
	return (&machine{State: s, policy: p, now: now}).hasWork()
}

// CredentialOf returns the credential that a channel needs.
func CredentialOf(c Channel) string { return c.credential() }
