package view

import (
	"fmt"
	"time"

	"agentstateloop/cycle/quarantine"
	"agentstateloop/internal/plain"
	"agentstateloop/state"
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

// QuestionText returns the whole text of a question of s, or its beginning if the history does not
// have it.
func (r Reader) QuestionText(s state.State, w state.Wait) string {
	find := func(l state.Line) (text string, ok bool) {
		return effectText(l.Effect), l.Kind == state.LineEffect && l.ID == w.ID && effectText(l.Effect) != ""
	}
	for _, l := range s.Lines {
		if text, ok := find(l); ok {
			return text
		}
	}
	for l, err := range r.Store.Newest(numbersRead, state.LineEffect) {
		if err != nil || l.At.Before(w.Asked.Add(-24*time.Hour)) {
			break
		}
		if text, ok := find(l); ok {
			return text
		}
	}
	return w.Text
}

func effectText(e *state.Effect) string {
	if e == nil {
		return ""
	}
	return e.Text
}

// The kinds of open questions.
const (
	QuestionAsk       = "ask"       // to another agent
	QuestionOperator  = "operator"  // to the operator, by mail: `answer` answers it as well
	QuestionReport    = "report"    // to work that the turn has started, for its report
	QuestionChallenge = "challenge" // to the operator: did you write this mail?
)
