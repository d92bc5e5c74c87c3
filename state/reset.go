package state

import "time"

// Reset is where the agent's memory begins: what was accepted up to Arrivals
// was queued before it, and attempts up to Epoch were begun before it. Origin is
// the handle of who reset it.
type Reset struct {
	At       time.Time `json:"at,omitzero"`
	Note     string    `json:"note,omitempty"`
	Origin   string    `json:"origin,omitempty"`
	Arrivals uint64    `json:"arrivals,omitempty"`
	Epoch    uint64    `json:"epoch,omitempty"`
}

// Resetted: `reset`: the agent's memory begins anew, with a note.
type Resetted struct{ Note, Origin string }

// apply begins the agent's memory anew. What is queued stays queued, and is
// told as being from before.
func (e Resetted) apply(m *machine) {
	m.Session = Session{}
	m.Reset = Reset{At: m.now, Note: e.Note, Origin: e.Origin, Arrivals: m.Arrivals, Epoch: m.Epoch}
	m.Compacted = Summary{}
	m.line(Line{Kind: LineReset, From: e.Origin, Reason: e.Note})
}

// Redacted implements [Redactable].
func (e Resetted) Redacted(redact func(string) string) Event {
	e.Note = redact(e.Note)
	return e
}
