package view

import (
	"fmt"
	"slices"
	"time"

	"agentstateloop/cycle/quarantine"
	"agentstateloop/internal/plain"
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

// The kinds of open questions.
const (
	QuestionAsk       = "ask"       // to another agent
	QuestionOperator  = "operator"  // to the operator, by mail: `answer` answers it as well
	QuestionReport    = "report"    // to work that the turn has started, for its report
	QuestionChallenge = "challenge" // to the operator: did you write this mail?
)

// StatusQuestion is a question of the agent that is not answered yet.
type StatusQuestion struct {
	Kind  string     `json:"kind"`
	ID    string     `json:"id"`   // that the answer must repeat
	To    string     `json:"to"`   // a handle, an address, or "tool NAME"
	Text  *string    `json:"text"` // its beginning
	Asked *time.Time `json:"asked"`
	Until *time.Time `json:"until"` // when the agent goes on without an answer
	Sent  bool       `json:"sent"`  // it has left the outbox

	Options []string `json:"options"` // offered by a question to the operator; never null
	Key     *string  `json:"key"`     // of the message whose turn asks; null: no turn asks
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

// questions returns the open questions of the agent.
func questions(s state.State, operator string, quarantined quarantine.Folder, now time.Time) []StatusQuestion {
	open := []StatusQuestion{}
	for _, w := range s.Turn.Waiting {
		if !w.Answered() {
			open = append(open, questionOf(s, w, s.Turn.Key))
		}
	}
	for _, x := range s.Expected {
		if x.Operator && !x.Answered() {
			open = append(open, questionOf(s, x.Wait, x.For))
		}
	}
	for _, c := range s.Challenges {
		if !now.Before(c.Until) {
			continue
		}
		text := challengeQuestion(c.Key, quarantined)
		open = append(open, StatusQuestion{
			Kind: QuestionChallenge, ID: c.ID, To: operator, Text: &text, Asked: OrNull(c.Made), Until: OrNull(c.Until), Sent: wasSent(s, c.ID),
			Options: []string{},
		})
	}
	return open
}

// questionOf returns the question of one wait of a turn. key is that of the turn's message.
func questionOf(s state.State, w state.Wait, key string) StatusQuestion {
	q := StatusQuestion{
		Kind: QuestionAsk, ID: w.ID, To: w.To, Text: OrNull(w.Text), Asked: OrNull(w.Asked), Until: OrNull(w.By), Sent: wasSent(s, w.ID),
		Options: append([]string{}, w.Options...), Key: OrNull(key),
	}
	switch {
	case w.Operator:
		q.Kind = QuestionOperator
	case w.Outside:
		q.Kind = QuestionReport
	}
	return q
}

// operatorQuestions returns the open questions to the operator of the turn whose message has
// this key.
func operatorQuestions(s state.State, key string) (open []StatusQuestion) {
	for _, w := range s.AskedOperatorFor(key) {
		open = append(open, questionOf(s, w, key))
	}
	return open
}

// wasSent reports whether an effect has left the outbox and was not given up.
func wasSent(s state.State, id string) bool { return !s.Keeps(id) }

// challengeQuestion returns the question of a challenge, in words.
func challengeQuestion(key string, quarantined quarantine.Folder) string {
	item, err := quarantined.Find(key)
	if err != nil {
		return fmt.Sprintf("did you write the mail %s?", plain.Line(key))
	}
	return fmt.Sprintf("did you write the mail %q, which claims to be from %s?", TitleOf(item.Subject), TitleOf(item.From))
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
