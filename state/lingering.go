package state

// AgentEnded reports that the process of an agent that lingered after its answer
// has ended.
type AgentEnded struct {
	TurnID string
	Epoch  uint64
	Reason string // how it ended
}

// apply frees the head for the next turn.
func (e AgentEnded) apply(m *machine) {
	if !m.Turn.LingersAt(e.TurnID, e.Epoch) {
		return
	}
	m.turnLine("exited", e.Reason)
	m.Turn = Head{Status: HeadIdle}
}

// Redacted implements [Redactable].
func (e AgentEnded) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

// LingersAt reports whether the process of this attempt still runs after its answer, as far as the
// state knows.
func (h Head) LingersAt(turnID string, epoch uint64) bool {
	return h.Lingering() && h.TurnID == turnID && h.Epoch == epoch
}

// Lingering reports whether the last agent may still run after its answer.
func (h Head) Lingering() bool { return h.Status == HeadIdle && h.Lingers }

// stoppable reports whether there is an agent to stop.
func (h Head) stoppable() bool { return h.Status != HeadIdle || h.Lingers }
