package state

// Recovered reports that state.json could not be used and was rebuilt.
type Recovered struct{ Reason string }

// apply tells the operator once. Only the lost state recorded which effects were about to be sent,
// so each may have been sent.
func (e Recovered) apply(m *machine) {
	m.line(Line{Kind: LineRecovery, Reason: e.Reason})
	for i := range m.Outbox {
		row := &m.Outbox[i]
		row.Unknown, row.Copies = true, max(1, row.Copies)
		if row.Reason == "" {
			row.Reason = "the state that recorded its fate is lost"
		}
	}
	m.notice("My state file could not be used (" + e.Reason + "). I rebuilt it from its copy and the history and keep running; no accepted message was lost.")
}

// Redacted implements [Redactable].
func (e Recovered) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}
