package state

import "time"

// Reset is where the agent's memory begins. Messages up to Arrivals were queued before it, and
// attempts up to Epoch began before it. Origin is the handle of the agent or the user that reset
// the memory.
type Reset struct {
	At       time.Time `json:"at,omitzero"`
	Note     string    `json:"note,omitempty"`
	Origin   string    `json:"origin,omitempty"`
	Arrivals uint64    `json:"arrivals,omitempty"`
	Epoch    uint64    `json:"epoch,omitempty"`
}

// MemoryReset reports `reset`: the agent's memory of all principals begins again, with a note for
// the operator's next turn.
type MemoryReset struct{ Note, Origin string }

// apply clears the agent's memory. Queued messages stay queued, and their prompts
// say that they are from before the reset.
func (e MemoryReset) apply(m *machine) {
	m.Reset = Reset{At: m.now, Note: e.Note, Origin: e.Origin, Arrivals: m.Arrivals, Epoch: m.Epoch}
	m.endConversations()
	m.operatorHeard()
	m.forgetSleeps("the memory was reset")
	m.line(Line{Kind: LineReset, From: e.Origin, Reason: e.Note})
}

// Redacted implements [Redactable].
func (e MemoryReset) Redacted(redact func(string) string) Event {
	e.Note = redact(e.Note)
	return e
}
