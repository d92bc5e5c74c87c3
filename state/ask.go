package state

import (
	"cmp"
	"slices"
	"time"

	"agentstateloop/internal/plain"
)

// What a turn waits for, and how it continues (docs/design.md, "Suspension").

// MissedTimeout is the [Wait.Missed] of a report that did not come in time.
const MissedTimeout = missedTimeout

// What stands in for a missing report.
const (
	missedTimeout    = "timeout"
	missedSuperseded = "timeout: superseded"
)

// Asked reports that the agent, from inside its turn, asks another agent, or its
// operator. The id of Question is the tool call id that the report repeats.
type Asked struct {
	TurnID   string
	Epoch    uint64
	Question Effect
	Patience time.Duration // how long the turn waits for the report at most
	Permit   string        // identifies the call of a tool that the operator is asked to permit, or ""
}

// apply queues the question and waits for its report from here on, before the
// question leaves.
func (e Asked) apply(m *machine) {
	if m.notUnderWay(e.TurnID, e.Epoch, "asked") {
		return
	}
	operator := e.Question.Kind == OperatorQuestion
	patience := max(0, min(e.Patience, MaxPatience))
	if operator {
		if why := m.whyNotAsked(); why != "" {
			m.turnLine("refused", why)
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
	m.line(Line{Kind: LineEdge, What: edgeEnqueue, Request: question.ID, From: m.Agent, To: question.To, TurnID: e.TurnID})
}

// Redacted implements [Redactable].
func (e Asked) Redacted(redact func(string) string) Event {
	e.Question = e.Question.redacted(redact)
	return e
}

// Permitted reports that a call of a tool goes ahead because the operator has permitted it
// in answer to this question. One answer permits one call.
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
			m.turnLine(TurnPermitted, w.Text)
			return
		}
	}
}

// TurnPermitted is the word of the line of a call that the operator has permitted.
const TurnPermitted = "permitted"

// Suspended reports that an attempt which asked has ended well and submitted
// nothing.
type Suspended struct {
	TurnID  string
	Epoch   uint64
	Box     string // its output box
	Session Session
}

// apply suspends the turn until its reports are in, which they may be already.
func (e Suspended) apply(m *machine) {
	if m.stale(e.TurnID, e.Epoch, "suspended") {
		return
	}
	m.Turn.Status = HeadSuspended
	m.Turn.Since = m.now
	m.Turn.Box = e.Box
	m.keepSession(m.TurnTalk(m.policy), e.Session, e.Epoch)
	m.turnLine("suspended", "")
}

// Reported reports a report on something we asked or started. Its payload is durable.
type Reported struct {
	Key, From, Payload, MeshID string
	Sum                        string // of the payload
	ToolCallID                 string
	At                         time.Time // when it was sent; zero = unknown
	Status                     Outcome   // of the other agent's turn, as it says; "" = unknown
	Trace                      string    // of the chain, as the report says; "" = unknown

	// Proven is set if a token proves From, Local if a program or a person of this
	// machine, or who has the token of the webhook, reports.
	Proven, Local bool
}

// answers reports whether the report is one on w. One on something outside is late after
// the deadline, whether or not a poll came in between; one through the mesh is as old as
// the mesh says.
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

// Redacted implements [Redactable]. Another agent's handle is what it is.
func (e Reported) Redacted(redact func(string) string) Event {
	if e.Local {
		e.From = redact(e.From)
	}
	return e
}

// answer closes w.
func (e Reported) answer(w *Wait) { w.Report, w.Sum, w.Status = e.Payload, e.Sum, e.Status }

// by says in words who has reported on something outside, which has no name itself.
func (e Reported) by(w Wait) string {
	if !w.Outside {
		return ""
	}
	return "reported by " + e.From
}

// apply answers the question that the report belongs to. A report that is late,
// unknown or a copy is acknowledged and changes nothing.
func (e Reported) apply(m *machine) {
	m.owe(0, e.MeshID)
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
		m.line(Line{Kind: LineNote, Key: e.Key, Source: source, From: e.From, What: "report", Reason: "nobody waits for it", Request: e.ToolCallID, Trace: e.Trace})
		return
	}
	e.answer(&m.Turn.Waiting[i])
	m.recordAnswer(e.Key, m.Turn.Waiting[i], cmp.Or(e.MeshID, e.Key), e.by(m.Turn.Waiting[i]))
}

// recordAnswer records that a question has its answer, and that the turn which
// asked has it too. by says who answered, where w does not.
func (m *machine) recordAnswer(key string, w Wait, response, by string) {
	m.line(Line{Kind: LineEdge, What: edgeReport, Key: key, From: w.To, To: m.Agent, Request: w.ID, Response: response, TurnID: m.Turn.TurnID, Outcome: w.Status, Reason: by})
	m.line(Line{Kind: LineEdge, What: edgeJoin, Request: w.ID, Response: response, TurnID: m.Turn.TurnID})
}

// resumeLate gives up waiting for each missing report whose deadline has passed.
func (m *machine) resumeLate() {
	if m.Turn.Status != HeadSuspended {
		return
	}
	for i, w := range m.Turn.Waiting {
		if !w.Answered() && !m.now.Before(w.By) {
			m.miss(i, missedTimeout)
		}
	}
}

// yield lets a suspended turn go on without its open questions if an operator message
// waits that could have its turn, or is collected, so that it does not wait for them.
func (m *machine) yield() {
	if m.asksItsOperator() {
		m.tellBehind()
		return
	}
	if m.mustYield(m.policy, m.now) || m.Turn.open() && slices.ContainsFunc(m.Inbox, func(msg Message) bool {
		return msg.endsSuspension() && msg.isCollecting() && m.mayRun(msg, m.policy, m.now)
	}) {
		m.supersede()
	}
}

// mustYield reports whether an operator message could have its turn now, but for open
// questions of a suspended one.
func (s State) mustYield(p Policy, now time.Time) bool {
	return s.Turn.open() && slices.ContainsFunc(s.Inbox, func(msg Message) bool {
		return msg.endsSuspension() && s.runnable(msg, p, now)
	})
}

// endsSuspension reports whether a suspended turn does not keep the message waiting. It
// does what the agent planned itself, a prompt of the clock, and what a report has brought back.
func (msg Message) endsSuspension() bool {
	return msg.Operator && !msg.ByItself() && !msg.IsFollowUp()
}

// supersede answers every open question, because the operator has written. What was
// started outside of the turn may still report.
func (m *machine) supersede() {
	for i, w := range m.Turn.Waiting {
		if !w.Answered() {
			if !w.Operator { // what they answer later is a message
				m.expect(w)
			}
			m.miss(i, missedSuperseded)
		}
	}
}

// miss answers the open question i with the given word.
func (m *machine) miss(i int, word string) {
	m.Turn.Waiting[i].Missed, m.Turn.Waiting[i].Status = word, Timeout
	m.recordAnswer("", m.Turn.Waiting[i], word, "")
}

// splitDeadline gives each open question its own deadline, in a state of an older
// version.
func (m *machine) splitDeadline() {
	for i, w := range m.Turn.Waiting {
		if !w.Answered() && w.By.IsZero() {
			m.Turn.Waiting[i].By, m.Turn.Waiting[i].Span = m.Turn.ResumeBy, m.Turn.Patience
		}
	}
	m.Turn.Patience = 0
}
