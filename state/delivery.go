package state

import "time"

// Sending: the final dot of an effect is about to leave; until Sent or
// SendFailed follows its fate is unknown.
type Sending struct{ ID string }

// apply is recorded before the final dot: from here on the effect may have
// happened.
func (e Sending) apply(m *machine) {
	i, ok := m.row(e.ID)
	if !ok {
		return
	}
	row := &m.Outbox[i]
	row.Copies++
	row.Unknown = true
	row.Sending = true
}

// interruptedSends finds, at the start of a cycle, what a killed one was about to
// send: its fate stays unknown. Effects are performed under cycle.lock alone,
// so nobody else is at it.
func (m *machine) interruptedSends() {
	for i := range m.Outbox {
		if row := &m.Outbox[i]; row.Sending {
			row.Sending = false
			row.Reason = "its sender was killed before the answer came"
		}
	}
}

// Sent: the effect was accepted by its server.
type Sent struct{ ID string }

func (e Sent) apply(m *machine) {
	i, ok := m.row(e.ID)
	if !ok {
		return
	}
	m.delivered(m.Outbox[i])
	m.endEffect(i, "sent", "")
	m.tellings(e.ID, func(t *Telling) { t.Sent = true })
}

// delivered restarts the count of silence when the operator got his answer.
func (m *machine) delivered(e Effect) {
	if e.Kind == Reply && e.Channel == ByMail {
		m.LastDelivery = m.now
	}
}

// SendFailed: it was not, or nobody knows.
type SendFailed struct {
	ID         string
	Permanent  bool
	Unknown    bool // broke after the final dot
	Refused    bool // not the effect was, but its credential: the next cycle tries again
	Reason     string
	RetryAfter time.Duration // as the server asked; 0 = our own back-off
}

// apply backs off, or gives up what can never arrive. A refusal after
// the dot is an answer: that copy did not arrive.
func (e SendFailed) apply(m *machine) {
	i, ok := m.row(e.ID)
	if !ok {
		return
	}
	row := &m.Outbox[i]
	if row.Sending && !e.Unknown {
		row.Copies--
	}
	row.Unknown = e.Unknown
	row.Sending = false
	row.Reason = e.Reason
	row.Refused = e.Refused
	if e.Refused {
		return
	}
	row.Attempts++
	if e.Permanent {
		m.undeliverable(i)
		return
	}
	wait := backoff(row.Attempts)
	if e.RetryAfter > 0 {
		wait = min(e.RetryAfter, longestBackoff)
	}
	row.NotBefore = m.now.Add(wait)
}

// Redacted implements [Redactable].
func (e SendFailed) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

// exhausted says whether no further copy may be sent: the one that left may have
// arrived, and is worthless twice, or there were enough of them.
func (e Effect) exhausted() bool {
	return e.Unknown && e.Kind.perishable() || e.Copies >= maxCopies
}

// expire drops what is worthless by now and gives up what waited too long. What
// is on its way right now is left alone: its answer will tell.
func (m *machine) expire() {
	for i := 0; i < len(m.Outbox); {
		row := m.Outbox[i]
		switch {
		case row.Sending:
			i++
		case row.Unknown && row.Kind.perishable():
			m.endEffect(i, "unknown", row.Reason)
		case row.Kind.life() > 0 && !m.now.Before(row.Expires), row.Kind == Challenge && !m.challengeIsOpen(row.ID):
			m.endEffect(i, "expired", row.Reason)
		case row.exhausted(), row.Waited >= giveUpAfter && (row.Attempts > 0 || row.Refused):
			m.undeliverable(i)
		default:
			i++
		}
	}
}

// undeliverable ends a row and tells the operator by another channel: what a
// mail server would not take through a peer, what the mesh would not take by
// mail. Of words that tell of something, none are made in turn: they go to the
// next who may be asked, or are counted.
func (m *machine) undeliverable(i int) {
	row := m.Outbox[i]
	if row.isWord() && !row.Refused && !row.Unknown && m.tryNextRoute(row) {
		return
	}
	m.Undeliverable++
	m.endEffect(i, "undeliverable", row.Reason)
	switch row.Kind {
	case Reply, Answer, Question, Post:
		m.tellOperator(Effect{
			Text:   "undeliverable: " + row.ID + " to " + row.To + ": " + row.Reason,
			Thread: m.subject("undeliverable"),
			Tried:  m.unreachable(row),
		})
	case Alarm, Relay, Notice:
		m.lapse(row)
	}
}

// unreachable are those whom word of an undeliverable effect will not reach either.
func (m *machine) unreachable(row Effect) []string {
	if row.Channel == ByMail {
		return []string{row.To, m.policy.Operator}
	}
	return []string{row.To}
}

// lapse has an outage told anew if its word was given up only for its age, and
// not if it may have arrived.
func (m *machine) lapse(row Effect) {
	switch {
	case row.Unknown:
		m.tellings(row.ID, func(t *Telling) { t.Sent = true })
	case row.Waited >= giveUpAfter:
		m.renotify(row.ID, "")
	}
}
