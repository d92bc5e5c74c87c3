package cycle

import (
	"time"

	"agentstateloop/state"
)

// Refusal is why an item is in quarantine; verdict.json beside its payload.
type Refusal struct {
	Key     string       `json:"key"`
	Source  state.Source `json:"source"`
	From    string       `json:"from"`
	Subject string       `json:"subject,omitempty"`
	Gate    string       `json:"gate"`
	Reason  string       `json:"reason"`
	At      time.Time    `json:"at"`
}
