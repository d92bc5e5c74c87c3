package view

import (
	"slices"
	"time"

	"agentstateloop/state"
)

// StatusNudge is the newest nudge.
type StatusNudge struct {
	From   string       `json:"from"`
	Reason string       `json:"reason"`
	Source state.Source `json:"source"` // nudge or mesh; "" from an older version
	At     time.Time    `json:"at"`
}

// StatusMail is the newest mail of the operator.
type StatusMail struct {
	Key     string    `json:"key"`
	At      time.Time `json:"at"` // as the server says
	From    string    `json:"from"`
	Subject *string   `json:"subject"` // its beginning; null: unknown or empty
}

// The deliveries of an answer.
const (
	AnswerWaiting     = "waiting"     // in the outbox
	AnswerSent        = "sent"        // its server accepted it
	AnswerPrinted     = "printed"     // it was for `tell`
	AnswerUndelivered = "undelivered" // given up: see `outbox list`
	AnswerReturned    = "returned"    // it was sent, and bounced
	AnswerDropped     = "dropped"     // by hand
)

// StatusAnswer is the newest answer to the operator.
type StatusAnswer struct {
	Key     string        `json:"key"` // of the message
	Source  state.Source  `json:"source"`
	TurnID  string        `json:"turn_id"`
	Outcome state.Outcome `json:"status"`
	At      time.Time     `json:"at"`           // when the turn ended
	Took    *float64      `json:"took_seconds"` // since the message came, or was due; null: unknown
	CostUSD float64       `json:"cost_usd"`

	Delivery string     `json:"delivery"`
	Sent     *time.Time `json:"sent"`
	Waits    *string    `json:"waits"` // why it is not sent yet, in words

	NotPermitted *string `json:"not_permitted"` // calls that were not permitted, in words
}

func mailStatus(m state.LastMail) *StatusMail {
	if m.Key == "" {
		return nil
	}
	return &StatusMail{Key: m.Key, At: m.At, From: m.From, Subject: OrNull(m.Subject)}
}

// answerStatus returns the newest answer, and its delivery.
func answerStatus(s state.State, now time.Time) *StatusAnswer {
	a := s.LastAnswer
	if a.TurnID == "" {
		return nil
	}
	st := StatusAnswer{
		Key: a.Key, Source: a.Source, TurnID: a.TurnID, Outcome: a.Outcome, At: a.At, CostUSD: a.Cost.USD(), NotPermitted: OrNull(a.Refused), Sent: OrNull(a.Sent),
	}
	if a.Took > 0 {
		seconds := a.Took.Seconds()
		st.Took = &seconds
	}
	row, waits := s.Effect(a.Reply)
	_, givenUp := s.UndeliveredEffect(a.Reply)
	switch {
	case a.Reply == "":
		st.Delivery = AnswerPrinted
	case waits:
		st.Delivery = AnswerWaiting
		st.Waits = OrNull(holdOf(s, row, now).Text)
	case givenUp:
		st.Delivery = AnswerUndelivered
	case slices.ContainsFunc(s.Lost, func(r state.Returned) bool { return r.ID == a.Reply }):
		st.Delivery = AnswerReturned
	case a.Ended != "":
		st.Delivery = AnswerDropped
	default:
		st.Delivery = AnswerSent
	}
	return &st
}

// WithoutWords returns the status without private words: subjects, questions, the titles of
// wakeups, and the reasons of nudges. It is for turns that another agent or a program caused.
func (s Status) WithoutWords() Status {
	s.Self.Wakeups = slices.Clone(s.Self.Wakeups)
	for i := range s.Self.Wakeups {
		s.Self.Wakeups[i].Title = ""
	}
	if s.NextWakeup != nil {
		next := *s.NextWakeup
		next.Title = ""
		s.NextWakeup = &next
	}
	if s.LastNudge != nil {
		ring := *s.LastNudge
		ring.Reason = ""
		s.LastNudge = &ring
	}
	if s.LastMail != nil {
		mail := *s.LastMail
		mail.Subject = nil
		s.LastMail = &mail
	}
	s.Questions = slices.Clone(s.Questions)
	for i := range s.Questions {
		s.Questions[i].Text, s.Questions[i].Options = nil, []string{}
	}
	return s
}
