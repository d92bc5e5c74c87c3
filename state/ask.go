package state

import (
	"cmp"
	"slices"
	"time"

	"agentstateloop/internal/plain"
)

// The reports that a turn waits for, and how the turn continues (docs/design.md, "Suspension").

// MissedTimeout is the [Wait.Missed] of a report that did not come in time.
const MissedTimeout = missedTimeout

// The values of Wait.Missed, which replace a missing report.
const (
	missedTimeout    = "timeout"
	missedSuperseded = "timeout: superseded"
)

// Asked reports that the agent, from inside its turn, asks another agent or its operator. The id of
// Question is the tool call id that the report repeats.
type Asked struct {
	TurnID   string
	Epoch    uint64
	Question Effect
	Patience time.Duration // how long the turn waits for the report at most
	Permit   string        // identifies the tool call that the operator is asked to permit, or ""
}

// apply queues the question. The wait for its report begins here, before the question leaves.
func (e Asked) apply(m *machine) {
	if m.notUnderWay(e.TurnID, e.Epoch, "asked") {
		return
	}
	operator := e.Question.Kind == OperatorQuestion
	patience := max(0, min(e.Patience, MaxPatience))
	if operator {
		if why := m.whyNotAsked(); why != "" {
			m.turnLine(WordRefused, why)
			return
		}
		e.Question.Channel, e.Question.Asker = ByMail, m.asker()
		e.Question.Expires = m.now.Add(patience)
		m.OperatorAsked = append(m.OperatorAsked, AskedOperator{At: m.now, By: e.Question.Asker})
	}
	m.queue(e.Question)
	question := m.Outbox[len(m.Outbox)-1]
	m.Turn.Waiting = append(m.Turn.Waiting, Wait{
		ID: question.ID, To: question.To, Text: plain.Shorten(plain.Line(question.Text), 200),
		Asked: m.now, By: m.now.Add(patience), Span: patience,
		Operator: operator, Options: slices.Clone(question.Options), Permit: e.Permit,
	})
	m.line(Line{Kind: LineEdge, What: WordEnqueue, Request: question.ID, From: m.Agent, To: question.To, TurnID: e.TurnID})
}

// Redacted implements [Redactable].
func (e Asked) Redacted(redact func(string) string) Event {
	e.Question = e.Question.redacted(redact)
	return e
}

// Permitted reports that a tool call goes ahead because the operator permitted it in answer to this
// question. One answer permits one call.
type Permitted struct {
	TurnID   string
	Epoch    uint64
	Question string // its id
}

func (e Permitted) apply(m *machine) {
	if m.notUnderWay(e.TurnID, e.Epoch, "permitted") {
		return
	}
	for i, w := range m.Turn.Waiting {
		if w.ID == e.Question && w.Permit != "" && w.Answered() && !w.Used {
			m.Turn.Waiting[i].Used = true
			m.turnLine(WordPermitted, w.Text)
			return
		}
	}
}

// Suspended reports that an attempt with questions ended well and submitted no deliverable.
type Suspended struct {
	TurnID  string
	Epoch   uint64
	Box     string // its output box
	Session Session
}

// apply suspends the turn until its reports are in. They may be in already.
func (e Suspended) apply(m *machine) {
	if m.stale(e.TurnID, e.Epoch, "suspended") {
		return
	}
	m.Turn.Status = HeadSuspended
	m.Turn.Since = m.now
	m.Turn.Box = e.Box
	m.keepSession(m.TurnTalk(m.policy), e.Session, e.Epoch)
	m.turnLine(WordSuspended, "")
}

// Reported reports a report on a question we asked or on work we started outside. Its payload is
// durable.
type Reported struct {
	Key, From, Payload, MeshID string
	Sum                        string // of the payload
	ToolCallID                 string
	At                         time.Time // when it was sent; zero if unknown
	Status                     Outcome   // of the other agent's turn, as the report gives it; "" if unknown
	Trace                      string    // of the chain, as the report gives it; "" if unknown

	// Proven is set if a token proves From. Local is set if the reporter is a program or a person
	// on this machine, or has the token of the webhook.
	Proven, Local bool
}

// answers reports whether the report answers w. A report on outside work is late after the
// deadline, even if no poll has run since the deadline. For a report through the mesh, the time
// that the mesh gives counts.
func (e Reported) answers(w Wait, now time.Time) bool {
	switch {
	case w.ID != e.ToolCallID, w.Operator:
		return false
	case !w.Outside:
		return !e.Local && w.To == e.From
	case !e.Local && !e.At.IsZero():
		now = earlier(now, e.At)
	}
	return now.Before(w.By) && (e.Local || e.Proven && slices.Contains(w.Peers, e.From))
}

// Redacted implements [Redactable]. It leaves the handle of another agent as it is.
func (e Reported) Redacted(redact func(string) string) Event {
	if e.Local {
		e.From = redact(e.From)
	}
	return e
}

// answer stores the report in w, which closes w.
func (e Reported) answer(w *Wait) { w.Report, w.Sum, w.Status = e.Payload, e.Sum, e.Status }

// by returns "reported by NAME" for outside work, which has no name of its own, and "" otherwise.
func (e Reported) by(w Wait) string {
	if !w.Outside {
		return ""
	}
	return "reported by " + e.From
}

// apply answers the question that the report belongs to. A report that is late, unknown or a copy
// is acknowledged and changes nothing.
func (e Reported) apply(m *machine) {
	m.acknowledgeLater(0, e.MeshID)
	if m.seen(e.Key) {
		return
	}
	m.noteSeen(e.Key)
	i := slices.IndexFunc(m.Turn.Waiting, func(w Wait) bool { return e.answers(w, m.now) && !w.Answered() })
	if m.Turn.Status == HeadIdle || i < 0 {
		if m.reportExpected(e) {
			return
		}
		source := Mesh
		if e.Local {
			source = CLI
		}
		m.line(Line{Kind: LineNote, Key: e.Key, Source: source, From: e.From, What: WordReport, Reason: "no turn waits for it", Request: e.ToolCallID, Trace: e.Trace})
		return
	}
	e.answer(&m.Turn.Waiting[i])
	m.recordAnswer(e.Key, m.Turn.Waiting[i], cmp.Or(messageID(e.MeshID), e.Key), e.by(m.Turn.Waiting[i]))
}

// recordAnswer records that a question has its answer, and that the turn that asked has it too. by
// names who answered, if w does not.
func (m *machine) recordAnswer(key string, w Wait, response, by string) {
	m.line(Line{Kind: LineEdge, What: WordReport, Key: key, From: w.To, To: m.Agent, Request: w.ID, Response: response, TurnID: m.Turn.TurnID, Outcome: w.Status, Reason: by})
	m.line(Line{Kind: LineEdge, What: WordJoin, Request: w.ID, Response: response, TurnID: m.Turn.TurnID})
}

// timeOutQuestions gives up waiting for each missing report whose deadline has passed.
func (m *machine) timeOutQuestions() {
	if m.Turn.Status != HeadSuspended {
		return
	}
	for i, w := range m.Turn.Waiting {
		if !w.Answered() && !m.now.Before(w.By) {
			m.giveUpQuestion(i, missedTimeout)
		}
	}
}

// endSuspension lets a suspended turn go on without its open questions if an operator message could
// have its turn. A message that is still collecting counts too, so that it does not wait for the
// questions.
func (m *machine) endSuspension() {
	if m.asksItsOperator() {
		m.tellMailWaits()
		return
	}
	if m.questionsBlockOperator(m.policy, m.now) || m.Turn.open() && slices.ContainsFunc(m.Inbox, func(msg Message) bool {
		return msg.endsSuspension() && msg.isCollecting() && m.mayRun(msg, m.policy, m.now)
	}) {
		m.supersede()
	}
}

// questionsBlockOperator reports whether only the open questions of a suspended turn keep an
// operator message from having its turn now. It is false if one of them asks the operator: then
// the operator's messages wait for the answer.
func (s State) questionsBlockOperator(p Policy, now time.Time) bool {
	return s.Turn.open() && !s.asksItsOperator() && slices.ContainsFunc(s.Inbox, func(msg Message) bool {
		return msg.endsSuspension() && s.runnable(msg, p, now)
	})
}

// endsSuspension reports whether the message ends the wait of a suspended turn. A message of the
// operator does. A wakeup that the agent planned, a prompt by the clock and a follow-up of a report
// wait instead.
func (msg Message) endsSuspension() bool {
	return msg.Operator && !msg.ByItself() && !msg.IsFollowUp()
}

// supersede gives up every open question, because the operator has written. Outside work may still
// report.
func (m *machine) supersede() {
	for i, w := range m.Turn.Waiting {
		if !w.Answered() {
			if !w.Operator { // a later answer of theirs is a message
				m.expect(w)
			}
			m.giveUpQuestion(i, missedSuperseded)
		}
	}
}

// giveUpQuestion answers the open question i with the given word.
func (m *machine) giveUpQuestion(i int, word string) {
	m.Turn.Waiting[i].Missed, m.Turn.Waiting[i].Status = word, Timeout
	m.recordAnswer("", m.Turn.Waiting[i], word, "")
}

// migrateDeadlines gives each open question its own deadline in a state of an older version.
func (m *machine) migrateDeadlines() {
	for i, w := range m.Turn.Waiting {
		if !w.Answered() && w.By.IsZero() {
			m.Turn.Waiting[i].By, m.Turn.Waiting[i].Span = m.Turn.ResumeBy, m.Turn.Patience
		}
	}
	m.Turn.Patience = 0
}
