package state

import (
	"fmt"
	"strings"
)

// Phase is where the machine stands (DESIGN 5).
type Phase string

// The three phases. IDLE polls every idle interval; PREP has acknowledged a
// ring and polls every engaged interval; ACTIVE is in conversation.
const (
	IDLE   Phase = "IDLE"
	PREP   Phase = "PREP"
	ACTIVE Phase = "ACTIVE"
)

// Phases lists every phase in the order of the machine.
var phases = [...]Phase{IDLE, PREP, ACTIVE}

// ParsePhase reads a phase as a person types it, in any case.
func ParsePhase(s string) (Phase, error) {
	for _, p := range phases {
		if strings.EqualFold(s, string(p)) {
			return p, nil
		}
	}
	return "", fmt.Errorf("%q is no state: want IDLE, PREP or ACTIVE", s)
}

// Engaged says whether the phase polls at the engaged interval.
func (p Phase) Engaged() bool { return p == PREP || p == ACTIVE }
