package state

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"agentstateloop/internal/plain"
)

// A turn asks the operator, and waits for the answer as it waits for a report (docs/design.md,
// "Suspension").

// Limits of a question to the operator. DefaultOperatorPatience is how long a turn waits for the
// answer if the agent gives no time.
const (
	MaxOperatorQuestion = 4 << 10 // bytes of its text
	MaxOptions          = 9       // one digit each
	MaxOption           = 60      // characters of one

	DefaultOperatorPatience = MaxPatience
	MinOperatorPatience     = time.Minute
)

// Limits on the number of questions to the operator.
const (
	maxOperatorOpen  = 5  // at the same time
	maxOperatorTurn  = 16 // by one turn, all its attempts together
	maxOperatorHour  = 20 // within an hour
	maxOperatorOther = 6  // within an hour, by turns that the operator did not cause
)

// AskedOperator is a question that was put to the operator.
type AskedOperator struct {
	At time.Time `json:"at"`
	By Principal `json:"by,omitempty"` // principal of the turn that asked; "" for the operator
}

// CheckOperatorQuestion returns an error, worded for the asker, if a question to the operator
// breaks a rule.
func CheckOperatorQuestion(text string, options []string) error {
	switch {
	case strings.TrimSpace(plain.Text(text)) == "":
		return errors.New("the question is empty")
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return errors.New("the question is not UTF-8 text")
	case len(text) > MaxOperatorQuestion:
		return fmt.Errorf("the question has %d bytes, and the limit is %d", len(text), MaxOperatorQuestion)
	case len(options) > MaxOptions:
		return fmt.Errorf("%d options are too many: the limit is %d", len(options), MaxOptions)
	}
	for i, option := range options {
		switch {
		case strings.TrimSpace(option) == "":
			return fmt.Errorf("option %d is empty", i+1)
		case !utf8.ValidString(option) || plain.Line(option) != option:
			return fmt.Errorf("option %d must be one line of plain text, without leading or trailing spaces", i+1)
		case utf8.RuneCountInString(option) > MaxOption:
			return fmt.Errorf("option %d has %d characters, and the limit is %d", i+1, utf8.RuneCountInString(option), MaxOption)
		case isControlWord(option):
			return fmt.Errorf("%q cannot be an option: a mail with only the word %s is a command to agentstateloop itself", option, strings.ToUpper(bareAnswer(option)))
		}
		for j, other := range options[:i] {
			if strings.EqualFold(bareAnswer(option), bareAnswer(other)) {
				return fmt.Errorf("options %d and %d are the same", j+1, i+1)
			}
		}
	}
	return nil
}

// isControlWord reports whether an answer with this text would be a control.
func isControlWord(option string) bool {
	return slices.Contains([]string{ControlStop, ControlHalt, ControlGo, ControlStatus}, strings.ToUpper(bareAnswer(option)))
}

// bareAnswer returns an answer without the spaces and punctuation around it.
func bareAnswer(text string) string { return strings.Trim(strings.TrimSpace(text), " .!,;:\"'`()[]") }

// NumberedOptions reports whether the options can be answered by number. They cannot if an option
// is itself a number.
func NumberedOptions(options []string) bool {
	return !slices.ContainsFunc(options, func(option string) bool {
		_, err := strconv.Atoi(bareAnswer(option))
		return err == nil
	})
}

// Option returns the option that an answer chooses, by its text in any case or by its number. ok is
// false for any other answer.
func Option(options []string, answer string) (option string, ok bool) {
	bare := bareAnswer(answer)
	for _, option := range options {
		if strings.EqualFold(strings.TrimSpace(answer), option) || bare != "" && strings.EqualFold(bare, bareAnswer(option)) {
			return option, true
		}
	}
	n, err := strconv.Atoi(strings.TrimPrefix(bare, "#"))
	if err != nil || n < 1 || n > len(options) || !NumberedOptions(options) {
		return "", false
	}
	return options[n-1], true
}

// asker returns the principal whose turn is active, or "" for the operator.
func (m *machine) asker() Principal {
	if msg, ok := m.TurnMessage(); ok && msg.Operator {
		return ""
	}
	return m.TurnPrincipal()
}

// whyNotAsked returns why the active turn may not ask the operator now, or "".
func (m *machine) whyNotAsked() string {
	open, all := 0, 0
	for _, w := range m.Turn.Waiting {
		if w.Operator {
			all++
			if !w.Answered() {
				open++
			}
		}
	}
	others := 0
	for _, a := range m.OperatorAsked {
		if a.By != "" {
			others++
		}
	}
	switch {
	case !m.policy.HasMail:
		return "this agent sends no mail"
	case open >= maxOperatorOpen:
		return fmt.Sprintf("%d questions of this turn are open, which is the limit: end the turn, and it resumes with the answers", open)
	case all >= maxOperatorTurn:
		return fmt.Sprintf("this turn has asked %d times, the limit for a turn", all)
	case len(m.OperatorAsked) >= maxOperatorHour:
		return fmt.Sprintf("the operator was asked %d times within an hour, which is the limit", len(m.OperatorAsked))
	case m.asker() != "" && others >= maxOperatorOther:
		return fmt.Sprintf("turns that the operator did not cause have asked %d times within an hour, which is their limit", others)
	}
	return ""
}

// OperatorWait returns the question to the operator with this id, open or answered, and the key of
// the message that its turn is about.
func (s State) OperatorWait(id string) (w Wait, key string, ok bool) {
	for _, w := range s.Turn.Waiting {
		if w.Operator && w.ID == id {
			return w, s.Turn.Key, true
		}
	}
	for _, x := range s.Expected {
		if x.Operator && x.ID == id {
			return x.Wait, x.For, true
		}
	}
	return Wait{}, "", false
}

// asksOperator reports whether the question to the operator with this id is open. A turn that is
// stopping, finishing or has its deliverable does not wait any more.
func (s State) asksOperator(id string) bool {
	w, key, ok := s.OperatorWait(id)
	over := key == s.Turn.Key && (s.Turn.Stop != "" || s.Turn.Submitted != "" || s.Turn.Finish)
	return ok && !w.Answered() && !over
}

// AsksOperatorAt reports whether the question to the operator with this id accepts an answer that
// came at this time.
func (s State) AsksOperatorAt(id string, at time.Time) bool {
	w, _, _ := s.OperatorWait(id)
	return s.asksOperator(id) && at.Before(w.By)
}

// AwaitsOperator reports whether any question to the operator is open at now.
func (s State) AwaitsOperator(now time.Time) bool { return len(s.OperatorWaits(now)) > 0 }

// OperatorWaits returns the questions to the operator that are open at now.
func (s State) OperatorWaits(now time.Time) (open []Wait) {
	all := slices.Clone(s.Turn.Waiting)
	for _, x := range s.Expected {
		all = append(all, x.Wait)
	}
	for _, w := range all {
		if w.Operator && s.AsksOperatorAt(w.ID, now) {
			open = append(open, w)
		}
	}
	return open
}

// AskedOperatorFor returns the open questions to the operator in the turn of the message with this
// key.
func (s State) AskedOperatorFor(key string) (open []Wait) {
	for _, w := range s.OperatorWaits(s.LastStep) {
		if _, of, _ := s.OperatorWait(w.ID); of == key {
			open = append(open, w)
		}
	}
	return open
}

// asksItsOperator reports whether a suspended turn of the operator waits for the operator's answer.
// The operator's other messages wait behind it. A turn that somebody else caused never holds up the
// operator.
func (s State) asksItsOperator() bool {
	msg, ok := s.TurnMessage()
	return ok && msg.Operator && s.Turn.Status == HeadSuspended &&
		slices.ContainsFunc(s.Turn.Waiting, func(w Wait) bool { return w.Operator && !w.Answered() })
}

// BehindQuestion returns the question to the operator that holds up their other messages.
func (s State) BehindQuestion() (Wait, bool) {
	if !s.asksItsOperator() {
		return Wait{}, false
	}
	i := slices.IndexFunc(s.Turn.Waiting, func(w Wait) bool { return w.Operator && !w.Answered() })
	return s.Turn.Waiting[i], true
}

// tellMailWaits tells the operator, once for each question, that a mail of theirs waits for their
// answer.
func (m *machine) tellMailWaits() {
	i := slices.IndexFunc(m.Turn.Waiting, func(w Wait) bool { return w.Operator && !w.Answered() })
	w := &m.Turn.Waiting[i]
	if w.Told || !m.policy.HasMail || !m.policy.Notices {
		return
	}
	for _, msg := range slices.Backward(m.Inbox) {
		if !msg.endsSuspension() || msg.Source != Mail || !m.runnable(msg, m.policy, m.now) {
			continue
		}
		w.Told = true
		m.queue(Effect{Kind: Notice, Channel: ByMail, To: msg.From, Thread: m.Thread, Text: fmt.Sprintf(behindText, w.Text, w.By.UTC().Format("2006-01-02 15:04"))})
		return
	}
}

// behindText is the notice that a message waits for the answer to a question. It names the
// deadline.
const behindText = `Your message is waiting for your answer to my question:

> %s

Reply to that mail: I will continue with your answer and then handle this message.
Without an answer I will continue at %s UTC. STOP ends the work that I asked about.`

// Replied reports an item in which the operator answers a question: a mail in the question's
// thread, or text from the terminal. While the question is open, the item is the report that the
// turn waits for, not a message of its own. Otherwise the item is Else or, if Else is nil, an
// ordinary message.
type Replied struct {
	Arrived
	Question string // its id
	Else     Event
	Only     bool   // the item is ignored if the question is not open
	Control  string // if set, the item is this control and not an answer; the question's id proves it while the question is open
}

// apply answers the question. The answer counts as hearing the operator, like any message of
// theirs.
func (e Replied) apply(m *machine) {
	msg := e.Message
	at := m.now
	if msg.Source == Mail && !msg.At.IsZero() {
		at = happened(msg.At.UTC(), m.now) // it may have arrived in time
	}
	w, key, _ := m.OperatorWait(e.Question)
	if !m.AsksOperatorAt(e.Question, at) || e.known(m) {
		e.otherwise(m)
		return
	}
	if e.Control != "" {
		Controlled{Arrived: e.Arrived, Control: e.Control}.apply(m)
		return
	}
	m.acknowledgeLater(e.UID, e.MeshID)
	m.noteSeen(msg.Key)
	m.noteSeen(e.Digest)
	w.Report, w.Sum, w.Status = msg.Payload, e.Message.Sum, Success
	turn, trace := m.closeQuestion(w)
	l := Line{
		Kind: LineEdge, What: WordReport, Key: msg.Key, Source: msg.Source, From: msg.From, To: m.Agent,
		Request: w.ID, Response: msg.Key, TurnID: turn, Outcome: Success, Digest: e.Digest, Trace: trace,
	}
	if msg.Source == Mail {
		l.Sent = at
	}
	m.line(l)
	m.line(Line{Kind: LineEdge, What: WordJoin, Request: w.ID, Response: msg.Key, TurnID: turn, Trace: trace})
	m.LastOperator = m.now
	m.operatorHeard()
	m.messageFollowed()
	m.Asleep = false
	msg.At = at
	if msg.Source == Mail {
		m.heardFrom = msg.From
		m.noteMail(msg, e.Thread.Subject)
		m.Thread = e.Thread
	}
	m.engage(msg, key, e.Thread)
}

// otherwise applies the item if its question is not open.
func (e Replied) otherwise(m *machine) {
	switch {
	case e.Only:
	case e.Else != nil && !e.known(m):
		e.Else.apply(m)
	default:
		e.Arrived.apply(m)
	}
}

// closeQuestion replaces the open question with w, which has its answer. It returns the id of the
// turn that waits for it, and the turn's chain.
func (m *machine) closeQuestion(w Wait) (turnID, trace string) {
	for i := range m.Turn.Waiting {
		if m.Turn.Waiting[i].ID == w.ID {
			m.Turn.Waiting[i] = w
			return m.Turn.TurnID, m.turnTrace()
		}
	}
	for i, x := range m.Expected {
		if x.ID == w.ID {
			m.Expected[i].Wait = w
			row := m.Expected[i]
			m.line(Line{Kind: LineEdge, What: WordExpected, Request: w.ID, From: m.Agent, To: w.To, Expected: &row, Trace: x.Cause.Trace})
			return x.Cause.TurnID, x.Cause.Trace
		}
	}
	return "", ""
}

// Redacted implements [Redactable].
func (e Replied) Redacted(redact func(string) string) Event {
	e.Else = redactEvent(e.Else, redact)
	return e
}

// AnswersOperatorQuestion reports whether the line records the operator's answer to a question of a
// turn.
func (l Line) AnswersOperatorQuestion() bool {
	return l.Kind == LineEdge && l.What == WordReport && l.Key != "" && (l.Source == Mail || l.Source == CLI) &&
		strings.HasPrefix(l.Request, string(OperatorQuestion)+".")
}

// applyOperatorAnswerLine restores that the operator was heard through an answer.
func (m *machine) applyOperatorAnswerLine(l Line) {
	if !l.AnswersOperatorQuestion() {
		return
	}
	m.noteSeen(l.Digest)
	m.LastOperator = l.At
	m.operatorHeard()
	m.messageFollowed()
	m.noteMail(Message{Key: l.Key, Source: l.Source, From: l.From, At: l.Sent}, "")
}
