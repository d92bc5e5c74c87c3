package state

import (
	"slices"
	"time"
)

// Sending reports that the final dot of an effect is about to leave. Until Sent or
// SendFailed follows, the fate of this copy is unknown.
type Sending struct{ ID string }

// apply counts the copy before the final dot: from here on it may have arrived.
func (e Sending) apply(m *machine) {
	i, ok := m.effectIndex(e.ID)
	if !ok {
		return
	}
	row := &m.Outbox[i]
	row.Copies++
	row.Unknown = true
	row.Sending = true
}

// interruptedSends finds, at the start of a cycle, the effects that a killed cycle
// was about to send. Their fate stays unknown. Effects are performed only by the
// holder of cycle.lock, so no other process is sending them now.
func (m *machine) interruptedSends() {
	for i := range m.Outbox {
		if row := &m.Outbox[i]; row.Sending {
			row.Sending = false
			row.Reason = "its sender was killed before the answer came"
		}
	}
}

// Sent reports that the effect was accepted by its server.
type Sent struct{ ID string }

func (e Sent) apply(m *machine) {
	i, ok := m.effectIndex(e.ID)
	if !ok {
		return
	}
	m.restartSilence(m.Outbox[i])
	m.endEffect(i, "sent", "")
	m.changeNotification(e.ID, func(t *Notification) { t.Sent = true })
}

// restartSilence restarts the count of silence when the operator got a reply.
func (m *machine) restartSilence(e Effect) {
	if e.Kind == Reply && e.Channel == ByMail {
		m.LastDelivery = m.now
	}
}

// SendFailed reports that an effect was not accepted, or that its fate is unknown.
type SendFailed struct {
	ID         string
	Permanent  bool
	Unknown    bool // broke after the final dot
	Denied     bool // its credential was denied: the next cycle tries again
	Reason     string
	RetryAfter time.Duration // as the server asked; 0 = our own backoff
}

// apply sets a backoff, or gives up what can never arrive. A failure that the
// server reported after the dot is an answer: that copy did not arrive.
func (e SendFailed) apply(m *machine) {
	i, ok := m.effectIndex(e.ID)
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
	row.Denied = e.Denied
	if e.Denied {
		return
	}
	row.Attempts++
	if e.Permanent {
		m.undeliverable(i)
		return
	}
	wait := backoff(row.Attempts)
	if e.RetryAfter > 0 {
		wait = min(e.RetryAfter, maxBackoff)
	}
	row.NotBefore = m.now.Add(wait)
}

// Redacted implements [Redactable].
func (e SendFailed) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

// exhausted reports whether no further copy may be sent: the last one may have
// arrived and a second would be worthless, or there were enough copies.
func (e Effect) exhausted() bool {
	return e.Unknown && e.Kind.perishable() || e.Copies >= maxCopies
}

// expire drops what has become worthless and gives up what has waited too long. It
// leaves alone what is being sent right now, because the answer is still to come.
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
		case row.exhausted(), row.Waited >= giveUpAfter && (row.Attempts > 0 || row.Denied):
			m.undeliverable(i)
		default:
			i++
		}
	}
}

// undeliverable ends a row. The operator learns of it by another channel: a peer
// relays what a mail server did not take, a mail carries what the mesh did not
// take. An undeliverable notice causes no further notice: it takes the next route
// or is only counted.
func (m *machine) undeliverable(i int) {
	row := m.Outbox[i]
	if row.canReroute() && !row.Denied && !row.Unknown && m.tryNextRoute(row) {
		return
	}
	m.Undeliverable++
	m.endEffect(i, "undeliverable", row.Reason)
	switch row.Kind {
	case Reply, Answer, Question, Post:
		m.tellOperator(Effect{
			Text:   "I could not deliver " + row.ID + " to " + row.To + ": " + row.Reason,
			Thread: m.subject("undeliverable"),
			Tried:  m.unreachable(row),
		})
	case Alarm, Relay, Notice:
		m.lapse(row)
	}
}

// unreachable returns the recipients that a notice about an undeliverable effect
// would not reach either.
func (m *machine) unreachable(row Effect) []string {
	if row.Channel == ByMail {
		return []string{row.To, m.policy.Operator}
	}
	return []string{row.To}
}

// lapse makes the notice of an outage again if it was given up only because of its
// age, and counts it as sent if it may have arrived.
func (m *machine) lapse(row Effect) {
	switch {
	case row.Unknown:
		m.changeNotification(row.ID, func(t *Notification) { t.Sent = true })
	case row.Waited >= giveUpAfter:
		m.renotify(row.ID, "")
	}
}

func (m *machine) applyDeliveryLine(l Line) {
	i, there := m.effectIndex(l.ID)
	if !there {
		return
	}
	if l.What == "undeliverable" {
		m.Undeliverable++
	}
	if l.What == "sent" {
		m.restartSilence(m.Outbox[i])
		m.changeNotification(l.ID, func(t *Notification) { t.Sent = true })
	}
	m.Outbox = slices.Delete(m.Outbox, i, i+1)
}
