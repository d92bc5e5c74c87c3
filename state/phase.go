package state

import (
	"fmt"
	"strings"
)

// Phase is IDLE, PREP or ACTIVE (docs/design.md, "Phases").
type Phase string

// The three phases. In IDLE the agent polls every idle interval. In PREP it has
// been woken and polls every engaged interval. In ACTIVE it is in conversation.
const (
	IDLE   Phase = "IDLE"
	PREP   Phase = "PREP"
	ACTIVE Phase = "ACTIVE"
)

// phases lists every phase in the order of the machine.
var phases = [...]Phase{IDLE, PREP, ACTIVE}

// ParsePhase parses a phase as a person types it, in upper or lower case.
func ParsePhase(s string) (Phase, error) {
	for _, p := range phases {
		if strings.EqualFold(s, string(p)) {
			return p, nil
		}
	}
	return "", fmt.Errorf("%q is not a phase: use IDLE, PREP or ACTIVE", s)
}

// Engaged reports whether the phase polls at the engaged interval.
func (p Phase) Engaged() bool { return p == PREP || p == ACTIVE }
