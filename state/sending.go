package state

import (
	"slices"
	"time"
)

// SendingFailure is a time in which mail cannot be sent: the server that takes our mail is down, or
// answers 4xx (docs/design.md, "The outbox"). If it denies our login, that is an outage of the
// credential "smtp" instead.
type SendingFailure struct {
	Since  time.Time `json:"since"`
	Reason string    `json:"reason,omitempty"` // of the last try
}

// The values of What in a sending line. The history, too, has since when mail cannot be sent.
const (
	sendingFails = "failed"
	sendingWorks = "works again"
)

// SendingIsDown reports whether the last try to send a mail failed for a reason other than the mail
// itself.
func (s State) SendingIsDown() bool { return !s.SendingFails.Since.IsZero() }

// sendingFailed records that mail cannot be sent.
func (m *machine) sendingFailed(reason string) {
	if !m.SendingIsDown() {
		m.SendingFails.Since = m.now
		m.line(Line{Kind: LineSending, What: sendingFails, Reason: reason})
	}
	m.SendingFails.Reason = reason
}

// sendingWorked records that the server has answered and is not the cause of a failure.
func (m *machine) sendingWorked() {
	if !m.SendingIsDown() {
		return
	}
	m.SendingFails = SendingFailure{}
	m.line(Line{Kind: LineSending, What: sendingWorks})
}

// endSendingFailure ends a failure when no mail waits any more, because no try would show when it is
// over.
func (m *machine) endSendingFailure() {
	byMail := func(e Effect) bool { return e.Channel == ByMail }
	if m.SendingIsDown() && !slices.ContainsFunc(m.Outbox, byMail) {
		m.SendingFails = SendingFailure{}
		m.line(Line{Kind: LineSending, What: "nothing waits"})
	}
}

func (m *machine) applySendingLine(l Line) {
	m.SendingFails = SendingFailure{}
	if l.What == sendingFails {
		m.SendingFails = SendingFailure{Since: l.At, Reason: l.Reason}
	}
}

// Held reports whether HALT holds a row back.
func (s State) Held(e Effect) bool { return s.Halted() && e.Kind != Answer }

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
