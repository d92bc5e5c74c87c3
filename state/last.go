package state

import (
	"time"

	"agentstateloop/internal/plain"
)

// An operator asks first: did my mail arrive, and was it answered? The two records below answer
// that. They change only in steps that record the mail or the turn itself.

// maxLastSubject is how many characters LastMail holds of a subject.
const maxLastSubject = 120

// LastMail is the newest mail of the operator, a message or a control. A state rebuilt from the
// history does not know its subject.
type LastMail struct {
	Key     string    `json:"key,omitempty"`
	From    string    `json:"from,omitempty"`
	Subject string    `json:"subject,omitempty"` // the beginning, on one line
	At      time.Time `json:"at,omitzero"`       // as the server gives it
}

// LastAnswer is the newest answer of a turn to the operator: the mail to them, or the text that
// `tell` waited for.
type LastAnswer struct {
	Key     string        `json:"key,omitempty"` // of the message
	Source  Source        `json:"source,omitempty"`
	TurnID  string        `json:"turn_id,omitempty"`
	Outcome Outcome       `json:"status,omitempty"`
	At      time.Time     `json:"at,omitzero"`    // when the turn ended
	Took    time.Duration `json:"took,omitempty"` // since the message came or was due; 0 if unknown
	Cost    Micros        `json:"micros,omitempty"`
	Refused string        `json:"not_permitted,omitempty"` // the actions that the agent was not permitted, in words

	// Reply is the effect that carries the answer, or "" for `tell`. Sent is when the server took
	// the effect. Ended is how the effect ended otherwise, as its history line says.
	Reply string    `json:"reply,omitempty"`
	Sent  time.Time `json:"sent,omitzero"`
	Ended string    `json:"ended,omitempty"`
}

// noteMail remembers a mail of the operator. It ignores other messages.
func (m *machine) noteMail(msg Message, subject string) {
	if msg.Source != Mail {
		return
	}
	subject = plain.Shorten(plain.Line(plain.Cut(subject, 4*maxLastSubject)), maxLastSubject)
	m.LastMail = LastMail{Key: msg.Key, From: msg.From, Subject: subject, At: msg.At}
}

// noteAnswer remembers the answer to a message, as its edge records it, if the operator gets it. An
// answer to another agent does not count.
func (m *machine) noteAnswer(msg Message, edge Line, at time.Time) {
	if msg.Principal() != OperatorPrincipal && msg.Cause() != CauseEvent {
		return
	}
	a := LastAnswer{Key: msg.Key, Source: msg.Source, TurnID: edge.TurnID, Outcome: edge.Outcome, At: at, Cost: msg.Cost, Refused: plain.Shorten(edge.Reason, maxLastSubject)}
	if edge.Response != edge.TurnID {
		a.Reply = edge.Response
	}
	if !msg.Early {
		a.Took = max(0, at.Sub(msg.Observed.Add(msg.Span)))
	}
	m.LastAnswer = a
}

// noteLateCost adds the later spending of the last answer's agent.
func (m *machine) noteLateCost(l Line) {
	if l.TurnID != "" && l.TurnID == m.LastAnswer.TurnID {
		m.LastAnswer.Cost = m.LastAnswer.Cost.plus(l.Spending.Cost)
	}
}

// noteReplyEnded remembers how the effect with the last answer ended.
func (m *machine) noteReplyEnded(id, what string, at time.Time) {
	a := &m.LastAnswer
	switch {
	case id == "" || a.Reply != id:
	case what == "sent":
		a.Sent, a.Ended = at, ""
	default:
		a.Ended = what
	}
}
