package state

import "time"

// Published is what the mesh's registry was last told of this agent (DESIGN 8).
type Published struct {
	Phase Phase     `json:"phase,omitempty"`
	At    time.Time `json:"at,omitzero"`
}

// Registered: the mesh's registry was told the phase, or takes none from us.
type Registered struct{ Phase Phase }

func (Registered) event() {}

func (m *machine) registered(e Registered) {
	m.Published = Published{Phase: e.Phase, At: m.now}
}
