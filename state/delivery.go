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
	row := m.Outbox[i]
	m.answered(row)
	m.endEffect(i, "sent", "")
	m.toFile(row)
	m.changeNotification(e.ID, func(t *Notification) { t.Sent = true })
	switch row.Channel {
	case ByMail:
		m.sendingWorked()
	case ByMesh:
		m.notePost()
	}
	m.told(row)
	m.tellNext(row)
}

// SendFailed reports that an effect was not accepted, or that its fate is unknown.
type SendFailed struct {
	ID         string
	Permanent  bool
	Unknown    bool // broke after the final dot
	NoReceipt  bool // the mesh took the call, and its answer does not show that it took the message
	Denied     bool // its credential was denied: the next cycle tries again
	Server     bool // it is a mail, and the server or the connection failed, not this mail alone
	Reason     string
	RetryAfter time.Duration // as the server asked; 0 = our own backoff
}

// apply sets a backoff, or gives up what can never arrive. A failure that the
// server reported after the dot is an answer: that copy did not arrive. One without a
// receipt may have arrived, so that there are not too many of it.
func (e SendFailed) apply(m *machine) {
	i, ok := m.effectIndex(e.ID)
	if !ok {
		return
	}
	row := &m.Outbox[i]
	switch {
	case e.NoReceipt && !row.Sending:
		row.Copies++
	case row.Sending && !e.Unknown && !e.NoReceipt:
		row.Copies--
	}
	row.Unknown = e.Unknown
	row.Sending = false
	row.Reason = e.Reason
	row.Denied = e.Denied
	if e.Denied {
		if row.Channel == ByMail {
			m.sendingWorked() // the server is there
		}
		return
	}
	row.Attempts++
	if e.Permanent {
		if row.Channel == ByMail {
			m.sendingWorked()
		}
		m.undeliverable(i, true)
		return
	}
	if e.Server && row.Channel == ByMail {
		m.sendingFailed(e.Reason)
	}
	row.NotBefore = m.now.Add(m.pause(*row, e))
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
		case m.overtaken(i) != "":
			m.endEffect(i, "overtaken", m.overtaken(i))
		case row.exhausted(), row.Waited >= giveUpAfter && (row.Attempts > 0 || row.Denied):
			m.undeliverable(i, false)
		default:
			i++
		}
	}
}

// undeliverable gives up a row, and keeps it. The operator is told at once of what was
// said to somebody: by mail, or by a peer where no mail gets through. Everything else
// is told when a mail goes through. refused means that the server refused this one for
// good. A notice takes the next route, if there is one.
func (m *machine) undeliverable(i int, refused bool) {
	row := m.Outbox[i]
	if row.canReroute() && !row.Denied && !row.Unknown && m.isNews(row) && m.tryNextRoute(row) {
		return
	}
	m.answered(row)
	m.endEffect(i, "undeliverable", row.Reason)
	m.keepUndelivered(row, m.now)
	switch row.Kind {
	case Reply, Answer, Question, Post:
		m.tellUndelivered(m.unreachable(row, refused))
	case Alarm, Relay, Notice:
		m.lapse(row)
	}
}

// isNews reports whether a notice would tell the operator something by another route:
// one about rows that were given up does not, if a peer was asked to tell of them all.
func (m *machine) isNews(notice Effect) bool {
	return len(notice.Tells) == 0 || slices.ContainsFunc(m.Undelivered, func(e Effect) bool {
		return e.Told == "" && slices.Contains(notice.Tells, e.ID)
	})
}

// unreachable returns the recipients that a notice about an undeliverable effect
// would not reach either. A server that refused one mail may take another.
func (m *machine) unreachable(row Effect, refused bool) []string {
	switch {
	case row.Channel == ByMesh:
		return []string{row.To}
	case refused:
		return nil
	}
	return []string{row.To, m.policy.Operator}
}

// lapse makes the notice of an outage again if it was given up only because of its
// age, and counts it as sent if it may have arrived.
func (m *machine) lapse(row Effect) {
	switch {
	case row.Unknown, row.Copies > 0:
		m.changeNotification(row.ID, func(t *Notification) { t.Sent = true })
	case row.Waited >= giveUpAfter && m.isNotification(row.ID):
		m.renotify(row.ID, "")
		if i := m.undeliveredIndex(row.ID); i >= 0 {
			m.endUndelivered(i, undeliveredForgotten, "it is made again")
		}
	}
}

func (m *machine) applyDeliveryLine(l Line) {
	m.noteReplyEnded(l.ID, l.What, l.At)
	i, there := m.effectIndex(l.ID)
	if !there {
		m.removeHookCall(l.ID)
		return
	}
	row := m.Outbox[i]
	switch l.What {
	case "undeliverable":
		m.answered(row)
		row.Reason = l.Reason
		m.keepUndelivered(row, l.At)
	case "sent":
		m.answered(row)
		m.told(row)
		m.changeNotification(l.ID, func(t *Notification) { t.Sent = true })
	}
	m.Outbox = slices.Delete(m.Outbox, i, i+1)
}
