package trust

import (
	"strings"

	"agentstateloop/internal/plain"
)

// evidence returns a reason with the field it rests on, as one line.
func evidence(reason, field string) string {
	return reason + ": " + plain.OneLine(field, 400)
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
