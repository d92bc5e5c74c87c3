package trust

import (
	"strings"

	"agentstateloop/internal/plain"
)

// evidence returns a reason with the field that supports it, as one line.
func evidence(reason, field string) string {
	return reason + ": " + plain.OneLine(field, 400)
}

// Finding splits the reason of a gate into the finding, such as "dmarc=fail", and the evidence
// for it, such as the field that shows it, or "".
func Finding(gate, reason string) (finding, evidence string) {
	if gate != GateTrust {
		return reason, ""
	}
	finding, evidence, _ = strings.Cut(reason, ": ")
	return finding, evidence
}
