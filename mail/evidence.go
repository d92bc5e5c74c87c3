package mail

import (
	"strings"

	"agentstateloop/internal/plain"
)

// evidence returns a reason with the field it rests on, as one line.
func evidence(reason, field string) string {
	return reason + ": " + oneLine(field, 400)
}

// Finding splits the reason of a gate into what was found, such as "dmarc=fail", and the
// evidence for it, such as the field that says so, or "".
func Finding(gate, reason string) (finding, evidence string) {
	if gate != GateTrust {
		return reason, ""
	}
	finding, evidence, _ = strings.Cut(reason, ": ")
	return finding, evidence
}

// oneLine returns foreign text as one line of at most max bytes, fit for an
// error or for the reason of a gate.
func oneLine(s string, max int) string { return plain.Cut(plain.Line(s), max) }
