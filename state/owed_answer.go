package state

import "time"

// owedFor is how long an answer that cannot be delivered keeps the agent awake (docs/design.md,
// "Timers").
const owedFor = time.Hour

// isAnswer reports whether the effect answers the operator: a turn's deliverable or
// the answer to a control, by mail.
func (e Effect) isAnswer() bool {
	return e.Channel == ByMail && (e.Kind == Reply || e.Kind == Answer)
}

// owedUntil returns until when silence does not count because an answer waits in the outbox: an
// hour after the last answer was ready. It returns the zero time if no answer waits. An answer that
// HALT holds back does not keep the agent awake.
func (s State) owedUntil() time.Time {
	var until time.Time
	for _, e := range s.Outbox {
		if e.isAnswer() && !s.Held(e) {
			until = latest(until, e.Created.Add(owedFor))
		}
	}
	return until
}

// answerPending reports whether an answer waits that was ready less than an hour ago.
func (m *machine) answerPending() bool { return m.now.Before(m.owedUntil()) }

// restartSilence restarts the count of silence when an answer has left or was given up. The count
// starts now or an hour after the answer was ready, whichever came first.
func (m *machine) restartSilence(e Effect) {
	if e.isAnswer() {
		m.LastDelivery = latest(m.LastDelivery, earlier(m.now, e.Created.Add(owedFor)))
	}
}

// updateOwing keeps the interval short even in IDLE while an answer is owed that could not be
// delivered at once.
func (m *machine) updateOwing() {
	owing := false
	for _, e := range m.Outbox {
		tried := e.Attempts > 0 || e.Denied
		owing = owing || e.isAnswer() && !m.Held(e) && tried && m.now.Before(e.Created.Add(owedFor))
	}
	if owing = owing && m.Phase == IDLE; owing != m.Owing {
		m.Owing = owing
		m.schedule()
	}
}

// pause returns how long a row waits after a failure. An owed answer is tried each minute for an
// hour, and then at growing pauses. A copy that may have arrived is not repeated so soon.
func (m *machine) pause(row Effect, e SendFailed) time.Duration {
	switch {
	case e.RetryAfter > 0:
		return min(e.RetryAfter, maxBackoff)
	case e.Unknown:
		return backoff(row.Copies)
	case row.isAnswer():
		late := m.now.Sub(row.Created) - owedFor
		return min(max(late, firstBackoff), backoff(row.Attempts))
	}
	return backoff(row.Attempts)
}

// expedite shortens the pauses of the rows before an owed answer, because order holds.
func (m *machine) expedite() {
	soon := m.now.Add(firstBackoff)
	for i, answer := range m.Outbox {
		if !answer.isAnswer() || m.Held(answer) || !m.now.Before(answer.Created.Add(owedFor)) {
			continue
		}
		for j := range i {
			row := &m.Outbox[j]
			if row.lane() == answer.lane() && !row.Unknown {
				row.NotBefore = earlier(row.NotBefore, soon)
			}
		}
	}
}
