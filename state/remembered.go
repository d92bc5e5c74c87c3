package state

// Remembered: from inside its turn, the agent replaces its working memory.
type Remembered struct {
	TurnID string
	Epoch  uint64
	Text   string
}

// apply notes what the agent has put into its working memory. A turn that
// began before a reset knows what is to be forgotten, and may not.
func (e Remembered) apply(m *machine) {
	if m.outside(e.TurnID, e.Epoch, "remembered") {
		return
	}
	if e.Epoch <= m.Reset.Epoch {
		m.line(Line{Kind: LineTurn, TurnID: e.TurnID, Epoch: e.Epoch, What: "stale", Reason: "remembered after a reset"})
		return
	}
	m.line(Line{Kind: LineMemory, TurnID: e.TurnID, Epoch: e.Epoch, Text: e.Text})
}

// Redacted implements [Redactable].
func (e Remembered) Redacted(redact func(string) string) Event {
	e.Text = redact(e.Text)
	return e
}
