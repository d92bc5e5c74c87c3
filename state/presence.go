package state

import "time"

// Published is what the mesh's registry was last told of this agent (DESIGN 8).
type Published struct {
	Phase  Phase     `json:"phase,omitempty"`
	Asleep bool      `json:"asleep,omitempty"`
	Tier   Tier      `json:"tier,omitempty"`
	At     time.Time `json:"at,omitzero"`
}

// Registered: the mesh's registry was told the phase, whether the agent sleeps
// and what it can afford, or takes nothing from us.
type Registered struct {
	Phase  Phase
	Asleep bool
	Tier   Tier
}

func (e Registered) apply(m *machine) {
	m.Published = Published{Phase: e.Phase, Asleep: e.Asleep, Tier: e.Tier, At: m.now}
}
