package state

import (
	"cmp"
	"slices"
	"time"

	"agentstateloop/internal/plain"
)

// What a turn waits for, and how it goes on (DESIGN 6).

// The words that stand in for a report that is missing.
const (
	missedTimeout    = "timeout"
	missedSuperseded = "timeout: superseded"
)

// Asked: from inside its turn, the agent asks another one. Question goes out;
// its id is the tool call id that a report repeats.
type Asked struct {
	TurnID   string
	Epoch    uint64
	Question Effect
	Patience time.Duration // how long the turn may wait for the report
}

// apply notes the question before it leaves: reports count from here on.
func (e Asked) apply(m *machine) {
	if m.notUnderWay(e.TurnID, e.Epoch, "asked") {
		return
	}
	m.queue(e.Question)
	question := m.Outbox[len(m.Outbox)-1]
	m.Turn.Waiting = append(m.Turn.Waiting, Wait{ID: question.ID, To: question.To, Text: plain.Shorten(plain.Line(question.Text), 200), Asked: m.now})
	patience := min(e.Patience, longestPatience)
	if by := m.now.Add(patience); by.After(m.Turn.ResumeBy) {
		m.Turn.ResumeBy, m.Turn.Patience = by, patience
	}
	m.line(Line{Kind: LineEdge, What: "enqueue", Request: question.ID, From: m.Agent, To: question.To, TurnID: e.TurnID})
}

// Redacted implements [Redactable].
func (e Asked) Redacted(redact func(string) string) Event {
	e.Question = e.Question.redacted(redact)
	return e
}

// Suspended: an attempt that asked has ended well and submitted nothing.
type Suspended struct {
	TurnID  string
	Epoch   uint64
	Box     string // its output box
	Session Session
}

// apply lays the turn down until its reports are in, which they may be
// already. An operator message that waits is not kept waiting by it.
func (e Suspended) apply(m *machine) {
	if m.stale(e.TurnID, e.Epoch, "suspended") {
		return
	}
	m.Turn.Status = HeadSuspended
	m.Turn.Since = m.now
	m.Turn.Box = e.Box
	m.keepSession(e.Session, e.Epoch)
	m.turnLine("suspended", "")
	if slices.ContainsFunc(m.Inbox, func(msg Message) bool { return msg.Operator && m.runnable(msg, m.policy, m.now) }) {
		m.answerOpen(missedSuperseded)
	}
}

// Reported: a peer's report to something we asked. Its payload is durable.
type Reported struct {
	Key, From, Payload, MeshID string
	ToolCallID                 string
}

// apply strikes a question out. A report that is replayed, late or unknown
// is acknowledged and changes nothing.
func (e Reported) apply(m *machine) {
	m.owe(0, e.MeshID)
	if m.seen(e.Key) {
		return
	}
	m.remember(e.Key)
	i := slices.IndexFunc(m.Turn.Waiting, func(w Wait) bool {
		return w.ID == e.ToolCallID && w.To == e.From && !w.Answered()
	})
	if m.Turn.Status == HeadIdle || i < 0 {
		m.line(Line{Kind: LineNote, Key: e.Key, Source: Mesh, From: e.From, What: "report", Reason: "nobody waits for it", Request: e.ToolCallID})
		return
	}
	m.Turn.Waiting[i].Report = e.Payload
	m.recordAnswer(e.Key, m.Turn.Waiting[i], cmp.Or(e.MeshID, e.Key))
}

// recordAnswer tells that a question has its answer, and that the turn that asked has
// it too.
func (m *machine) recordAnswer(key string, w Wait, response string) {
	m.line(Line{Kind: LineEdge, What: "report", Key: key, From: w.To, To: m.Agent, Request: w.ID, Response: response, TurnID: m.Turn.TurnID})
	m.line(Line{Kind: LineEdge, What: "join", Request: w.ID, Response: response, TurnID: m.Turn.TurnID})
}

// resumeLate answers for those who did not, once the deadline has passed.
func (m *machine) resumeLate() {
	if m.Turn.Status == HeadSuspended && !m.now.Before(m.Turn.ResumeBy) {
		m.answerOpen(missedTimeout)
	}
}

// answerOpen answers every question that is still open with the given word.
func (m *machine) answerOpen(word string) {
	for i, w := range m.Turn.Waiting {
		if w.Answered() {
			continue
		}
		m.Turn.Waiting[i].Missed = word
		m.recordAnswer("", w, word)
	}
}
