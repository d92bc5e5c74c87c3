package mail

import "agentstateloop/internal/plain"

// evidence returns a reason with the field it rests on, as one line.
func evidence(reason, field string) string {
	return reason + ": " + oneLine(field, 400)
}

// oneLine returns foreign text as one line of at most max bytes, fit for an
// error or for the reason of a gate.
func oneLine(s string, max int) string { return plain.Cut(plain.Line(s), max) }
