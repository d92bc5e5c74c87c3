package state

import "time"

// What the tests of package state_test use of the machine besides its exported
// names. They are outside the package because package statetest imports it.

const (
	CountedKept   = countedKept
	DaysKept      = daysKept
	MaxHookCalls  = maxHookCalls
	MaxBackoff    = maxBackoff
	MaxExpected   = maxExpected
	MaxOutage     = maxOutage
	MaxRefetch    = maxRefetch
	MaxDeferral   = maxDeferral
	MailsAnHour   = mailsAnHour
	MonthsKept    = monthsKept
	MaxRejections = maxRejections
	SeenFor       = seenFor
	TokenLife     = tokenLife
	OwedFor       = owedFor
	UnpricedKept  = unpricedKept

	UndeliveredKept = undeliveredKept
)

// HasWork reports whether a machine in state s has work.
func HasWork(s State, p Policy, now time.Time) bool {
	return s.hasWork(p, now)
}

// QuestionsBlockOperator reports whether an operator message waits for a suspended turn alone.
func QuestionsBlockOperator(s State, p Policy, now time.Time) bool {
	return s.questionsBlockOperator(p, now)
}

// OwedAnswer reports whether the effect is an answer that keeps the agent awake.
func OwedAnswer(s State, e Effect) bool { return e.isAnswer() && !s.Held(e) }

// CredentialOf returns the credential that a channel needs.
func CredentialOf(c Channel) string { return c.credential() }
