package state

// overtaken returns why an unsent mail is out of date, or "". An ack, a quiet and a "still working"
// mail are worth something only at their time (docs/design.md, "The outbox").
func (m *machine) overtaken(i int) string {
	row := m.Outbox[i]
	switch {
	case row.Kind == OperatorQuestion && !row.Sending && !m.asksOperator(row.ID):
		return "nothing waits for its answer any more"
	case row.Sending || !row.Kind.perishable():
		return ""
	case row.Kind == Ack && m.answeredBefore(i):
		return ackAnswered
	case !m.heldUp(i):
		return ""
	}
	switch row.Kind {
	case Ack:
		if m.answerAfter(i) {
			return ackAnswered
		}
		if m.Phase != PREP || row.Created.Before(m.PhaseSince) {
			return "PREP is over"
		}
	case Quiet:
		if m.Phase != IDLE || row.Created.Before(m.PhaseSince) {
			return "the agent was woken"
		}
	case Working:
		if _, waits := m.MessageOfTurn(row.TurnID); !waits {
			return "its turn has ended"
		}
	}
	return ""
}

// heldUp reports whether a row was not sent at its first try: it failed, or has waited for a
// minute. HALT or an earlier row may have held it up, or the poll that was about to send it was
// killed.
func (m *machine) heldUp(i int) bool {
	row := m.Outbox[i]
	return row.failed() || m.now.Sub(row.Created) >= firstBackoff
}

// failed reports whether a row was tried without success.
func (e Effect) failed() bool { return e.Attempts > 0 || e.Denied }

// answerAfter reports whether a turn's reply to the operator is queued behind a row.
func (m *machine) answerAfter(i int) bool {
	for _, e := range m.Outbox[i+1:] {
		if e.Kind == Reply && e.Channel == ByMail {
			return true
		}
	}
	return false
}
