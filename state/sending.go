package state

import (
	"slices"
	"time"
)

// SendingFailure is the time in which no mail can be sent: the server that takes our
// mail is down, or answers 4xx (docs/design.md, "The outbox"). A login that it denies
// is an outage of the credential "smtp" instead.
type SendingFailure struct {
	Since  time.Time `json:"since"`
	Reason string    `json:"reason,omitempty"` // of the last try
}

// Since when no mail can be sent is in the history as well.
const (
	sendingFails = "failed"
	sendingWorks = "works again"
)

// SendingIsDown reports whether the last try to send a mail has failed for a reason
// that is not the mail's own.
func (s State) SendingIsDown() bool { return !s.SendingFails.Since.IsZero() }

// sendingFailed records that no mail can be sent.
func (m *machine) sendingFailed(reason string) {
	if !m.SendingIsDown() {
		m.SendingFails.Since = m.now
		m.line(Line{Kind: LineSending, What: sendingFails, Reason: reason})
	}
	m.SendingFails.Reason = reason
}

// sendingWorked records that the server has answered and is not what fails.
func (m *machine) sendingWorked() {
	if !m.SendingIsDown() {
		return
	}
	m.SendingFails = SendingFailure{}
	m.line(Line{Kind: LineSending, What: sendingWorks})
}

// forgetSending ends a failure that holds up nothing any more: nobody would find out
// when it is over.
func (m *machine) forgetSending() {
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

// NextTry returns when a row that waits may be tried again: not before its own pause
// is over, nor that of the rows before it in its lane.
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
