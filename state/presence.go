package state

import "time"

// Published is the last report about this agent to the registry of the mesh (docs/protocol.md, "The
// mesh").
type Published struct {
	Phase  Phase     `json:"phase,omitempty"`
	Asleep bool      `json:"asleep,omitempty"`
	Tier   Tier      `json:"tier,omitempty"`
	At     time.Time `json:"at,omitzero"`
}

// Registered reports that the mesh's registry has the agent's phase, sleep and tier, or that the
// mesh does not take them.
type Registered struct {
	Phase  Phase
	Asleep bool
	Tier   Tier
}

func (e Registered) apply(m *machine) {
	m.Published = Published{Phase: e.Phase, Asleep: e.Asleep, Tier: e.Tier, At: m.now}
}
