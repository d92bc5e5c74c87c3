package state

// Recovered: state.json could not be used and was rebuilt.
type Recovered struct{ Reason string }

// apply tells the operator, once, that the state was rebuilt. That an effect
// was about to be sent stood in the state that is lost, and nowhere else: so
// each may have been.
func (e Recovered) apply(m *machine) {
	m.line(Line{Kind: LineRecovery, Reason: e.Reason})
	for i := range m.Outbox {
		row := &m.Outbox[i]
		row.Unknown, row.Copies = true, max(1, row.Copies)
		if row.Reason == "" {
			row.Reason = "the state that knew what became of it is lost"
		}
	}
	m.notice("My state file could not be used (" + e.Reason + "). I rebuilt it from its copy and the history and go on; no accepted message was dropped.")
}

// Redacted implements [Redactable].
func (e Recovered) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}
