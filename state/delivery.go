package state

import (
	"slices"
	"time"
)

// Sending reports that the final dot of an effect is about to leave. The fate of this copy is
// unknown until Sent or SendFailed follows.
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

// interruptedSends finds, at the start of a cycle, the effects that a killed cycle was about to
// send. Their fate stays unknown. Only the holder of cycle.lock performs effects, so no other
// process is sending them now.
func (d *Deliveries) interruptedSends() {
	for i := range d.Outbox {
		if row := &d.Outbox[i]; row.Sending {
			row.Sending = false
			row.Reason = "the process that sent it was killed before the server answered"
		}
	}
}

// Sent reports that the server accepted an effect.
type Sent struct{ ID string }

func (e Sent) apply(m *machine) {
	i, ok := m.effectIndex(e.ID)
	if !ok {
		return
	}
	row := m.Outbox[i]
	m.restartSilence(row)
	m.endEffect(i, WordSent, "")
	m.keepForCopy(row)
	m.changeNotification(e.ID, func(t *Notification) { t.Sent = true })
	switch row.Channel {
	case ByMail:
		m.sendingWorked()
		m.markAnsweredLater(row.Answers)
	case ByMesh:
		m.notePost()
	}
	m.noteReported(row)
	m.tellRemaining(row)
}

// SendFailed reports that the server did not accept an effect, or that the effect's fate is
// unknown.
type SendFailed struct {
	ID         string
	Permanent  bool
	Unknown    bool // the connection broke after the final dot
	NoReceipt  bool // the mesh took the call, but its answer does not show that it took the message
	Denied     bool // its credential was denied; the next cycle tries again
	Server     bool // for a mail: the server or the connection failed, not this mail alone
	Reason     string
	RetryAfter time.Duration // as the server asked; 0 means our own backoff
}

// apply sets a backoff, or gives up an effect that can never arrive. A failure that the server
// reports after the dot is an answer: that copy did not arrive. A copy without a receipt may have
// arrived, so it counts towards the limit of copies.
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
			m.sendingWorked() // the server responds
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

// exhausted reports whether no further copy may be sent: the last one may have arrived and a second
// would be worthless, or there were enough copies.
func (e Effect) exhausted() bool {
	return e.Unknown && e.Kind.perishable() || e.Copies >= maxCopies
}

// expireEffects drops worthless effects and gives up effects that have waited too long. It skips an effect
// that is being sent right now, because the answer is still to come.
func (m *machine) expireEffects() {
	for i := 0; i < len(m.Outbox); {
		row := m.Outbox[i]
		switch {
		case row.Sending:
			i++
		case row.Unknown && row.Kind.perishable():
			m.endEffect(i, WordUnknown, row.Reason)
		case row.Kind.life() > 0 && !m.now.Before(row.Expires), row.Kind == Challenge && !m.challengeIsOpen(row.ID):
			m.endEffect(i, WordExpired, row.Reason)
		case m.overtaken(i) != "":
			m.endEffect(i, WordOvertaken, m.overtaken(i))
		case row.exhausted(), row.Waited >= giveUpAfter && (row.Attempts > 0 || row.Denied):
			m.undeliverable(i, false)
		default:
			i++
		}
	}
}

// undeliverable gives up a row and keeps it in Undelivered. If the row was a message to somebody,
// it tells the operator at once: by mail, or through a peer if mail does not get through. The
// operator hears of other rows once a mail gets through. refused means that the server refused this
// row for good. A notice takes the next route, if it has one.
func (m *machine) undeliverable(i int, refused bool) {
	row := m.Outbox[i]
	if row.canReroute() && !row.Denied && !row.Unknown && m.isNews(row) && m.tryNextRoute(row) {
		return
	}
	m.restartSilence(row)
	m.endEffect(i, WordUndeliverable, row.Reason)
	m.keepUndelivered(row, m.now)
	switch row.Kind {
	case Reply, Answer, Question, Post:
		m.tellUndelivered(m.unreachable(row, refused))
	case Alarm, Relay, Notice:
		m.renewNotification(row)
	}
}

// isNews reports whether another route for a notice would tell the operator something. It would not
// if the notice is about rows that were given up and a peer was already asked to report all of
// them.
func (d *Deliveries) isNews(notice Effect) bool {
	return len(notice.Tells) == 0 || slices.ContainsFunc(d.Undelivered, func(e Effect) bool {
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

// renewNotification makes the notice of an outage again if the notice was given up only because of
// its age. It counts the notice as sent if it may have arrived.
func (m *machine) renewNotification(row Effect) {
	switch {
	case row.Unknown, row.Copies > 0:
		m.changeNotification(row.ID, func(t *Notification) { t.Sent = true })
	case row.Waited >= giveUpAfter && m.isNotification(row.ID):
		m.renotify(row.ID, "")
		if i := m.undeliveredIndex(row.ID); i >= 0 {
			m.endUndelivered(i, WordForgotten, "a new notice replaces it")
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
	case WordUndeliverable:
		m.restartSilence(row)
		row.Reason = l.Reason
		m.keepUndelivered(row, l.At)
	case WordSent:
		m.restartSilence(row)
		m.noteReported(row)
		m.changeNotification(l.ID, func(t *Notification) { t.Sent = true })
	}
	m.Outbox = slices.Delete(m.Outbox, i, i+1)
}

// SendingFailure is a time in which mail cannot be sent: the server that takes our mail is down, or
// answers 4xx (docs/design.md, "The outbox"). If it denies our login, that is an outage of the
// credential "smtp" instead.
type SendingFailure struct {
	Since  time.Time `json:"since"`
	Reason string    `json:"reason,omitempty"` // of the last try
}

// SendingIsDown reports whether the last try to send a mail failed for a reason other than the mail
// itself.
func (d Deliveries) SendingIsDown() bool { return !d.SendingFails.Since.IsZero() }

// sendingFailed records that mail cannot be sent.
func (m *machine) sendingFailed(reason string) {
	if !m.SendingIsDown() {
		m.SendingFails.Since = m.now
		m.line(Line{Kind: LineSending, What: WordFailed, Reason: reason})
	}
	m.SendingFails.Reason = reason
}

// sendingWorked records that the server has answered and is not the cause of a failure.
func (m *machine) sendingWorked() {
	if !m.SendingIsDown() {
		return
	}
	m.SendingFails = SendingFailure{}
	m.line(Line{Kind: LineSending, What: WordWorksAgain})
}

// endSendingFailure ends a failure when no mail waits any more, because no try would show when it is
// over.
func (m *machine) endSendingFailure() {
	byMail := func(e Effect) bool { return e.Channel == ByMail }
	if m.SendingIsDown() && !slices.ContainsFunc(m.Outbox, byMail) {
		m.SendingFails = SendingFailure{}
		m.line(Line{Kind: LineSending, What: WordNothingWaits})
	}
}

func (d *Deliveries) applySendingLine(l Line) {
	d.SendingFails = SendingFailure{}
	if l.What == WordFailed {
		d.SendingFails = SendingFailure{Since: l.At, Reason: l.Reason}
	}
}

// Held reports whether HALT holds a row back.
func (h Halts) Held(e Effect) bool { return h.Halted() && e.Kind != Answer }

// NextTry returns when a waiting row may be tried again: after its own pause and the pauses of the
// rows before it in its lane.
func (s State) NextTry(id string) time.Time {
	i := slices.IndexFunc(s.Outbox, func(e Effect) bool { return e.ID == id })
	if i < 0 {
		return time.Time{}
	}
	at := s.notBefore(s.Outbox[i])
	for _, e := range s.Outbox[:i] {
		if e.lane() == s.Outbox[i].lane() {
			at = latest(at, e.NotBefore)
		}
	}
	return at
}
