package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentstateloop/internal/plain"
)

// Work that a turn starts outside and waits for. A tool that suspends the turn starts the wait, or
// the agent does by `submit` (docs/design.md, "Suspension").

// Awaited returns the wait with this id, if a turn waits for its report or the report is still
// expected.
func (s State) Awaited(id string) (w Wait, ok bool) {
	for _, x := range s.Expected {
		if x.ID == id {
			return x.Wait, true
		}
	}
	for _, w := range s.Turn.Waiting {
		if w.ID == id {
			return w, true
		}
	}
	return Wait{}, false
}

// maxAwaited bounds the reports on outside work that a turn may wait for, in all its attempts.
const maxAwaited = 16

// Awaited reports that a turn waits for a report that a program or a person gives later. The id of
// the wait is minted and committed before the program that repeats it starts.
type Awaited struct {
	TurnID   string
	Epoch    uint64
	What     string        // the reporter: "tool deploy", or "submit"
	Text     string        // the turn's own description
	Words    string        // a file in the folder of the attempt with the whole description, or ""
	WordsSum string        // of that file
	Peers    []string      // agents whose report through the mesh counts as well
	Patience time.Duration // how long the turn waits for the report at most
}

func (e Awaited) apply(m *machine) {
	if m.notUnderWay(e.TurnID, e.Epoch, "awaited") {
		return
	}
	outside := 0
	for _, w := range m.Turn.Waiting {
		if w.Outside {
			outside++
		}
	}
	if outside >= maxAwaited {
		m.turnLine(WordRefused, fmt.Sprintf("it has waited %d times, the limit for a turn", maxAwaited))
		return
	}
	patience := max(0, min(e.Patience, MaxPatience))
	w := Wait{
		ID: m.mint("wait"), To: e.What, Text: plain.Shorten(plain.Line(e.Text), 200),
		Asked: m.now, By: m.now.Add(patience), Span: patience,
		Outside: true, Peers: slices.Clone(e.Peers), Words: e.Words, WordsSum: e.WordsSum,
	}
	m.Turn.Waiting = append(m.Turn.Waiting, w)
	m.line(Line{Kind: LineEdge, What: WordAwait, Request: w.ID, From: m.Agent, To: w.To, TurnID: e.TurnID})
}

// Redacted implements [Redactable].
func (e Awaited) Redacted(redact func(string) string) Event {
	e.What, e.Text = redact(e.What), redact(e.Text)
	return e
}

// Withdrawn reports that outside work has failed or is already done, so that the turn does not wait
// for it.
type Withdrawn struct {
	TurnID string
	Epoch  uint64
	ID     string // of the wait
	Reason string
}

func (e Withdrawn) apply(m *machine) {
	i := slices.IndexFunc(m.Turn.Waiting, func(w Wait) bool { return w.Outside && w.ID == e.ID })
	if m.notUnderWay(e.TurnID, e.Epoch, "withdrew") || i < 0 {
		return
	}
	m.line(Line{Kind: LineEdge, What: WordWithdrawn, Request: e.ID, From: m.Agent, To: m.Turn.Waiting[i].To, TurnID: e.TurnID, Reason: e.Reason})
	m.Turn.Waiting = slices.Delete(m.Turn.Waiting, i, i+1)
}

// Redacted implements [Redactable].
func (e Withdrawn) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

// Finished reports that a tool has ended the turn. The turn is closed when its attempt ends, even
// if it still waits for reports.
type Finished struct {
	TurnID string
	Epoch  uint64
}

func (e Finished) apply(m *machine) {
	if m.notUnderWay(e.TurnID, e.Epoch, "finished") || m.Turn.Finish {
		return
	}
	m.Turn.Finish = true
	m.turnLine(WordFinished, "")
}

// Expected is a report that may still come although no active turn waits for it. Its turn died and
// runs again, or has ended, or went on because the operator wrote.
type Expected struct {
	Wait

	// Cause is the row of the message whose turn started the outside work, as the row was then. For
	// is the key of the message whose next turn gets the report, if that message is in the inbox.
	Cause Message `json:"cause"`
	For   string  `json:"for,omitempty"`
}

// maxExpected bounds State.Expected. The oldest is forgotten first.
const maxExpected = 32

// expect keeps a wait of the active turn, which goes on without it. It drops a question to another
// agent.
func (m *machine) expect(w Wait) {
	msg, ok := m.TurnMessage()
	if !w.outlivesAttempt() || w.Missed == missedSuperseded || !ok {
		return
	}
	w.Handed = false
	x := Expected{Wait: w, Cause: msg, For: msg.Key}
	m.addExpected(x)
	m.line(Line{Kind: LineEdge, What: WordExpected, Request: w.ID, From: m.Agent, To: w.To, TurnID: m.Turn.TurnID, Expected: &x})
}

// addExpected adds x, or replaces the entry with its id.
func (m *machine) addExpected(x Expected) {
	m.removeExpected(x.ID)
	m.Expected = append(m.Expected, x)
	if over := len(m.Expected) - maxExpected; over > 0 {
		m.Expected = slices.Delete(m.Expected, 0, over)
	}
}

func (m *machine) removeExpected(id string) {
	m.Expected = slices.DeleteFunc(m.Expected, func(x Expected) bool { return x.ID == id })
}

// expectAll keeps all waits of the active turn, whose message is queued again. The next attempt
// gets the reports of the last attempt too.
func (m *machine) expectAll() {
	for _, w := range m.Turn.Waiting {
		m.expect(w)
	}
}

// expectRest keeps the waits whose report the active turn has not received when it ends. A turn
// that was stopped forgets its reports.
func (m *machine) expectRest(o Outcome) {
	if o == Canceled {
		m.expireExpected(func(x Expected) bool { return x.For == m.Turn.Key })
		return
	}
	for _, w := range m.Turn.Waiting {
		if !w.Handed && w.Missed == "" && (!w.Operator || w.Answered()) {
			m.expect(w)
		}
	}
}

// followUpReports gives each report that has come for the message with this key, whose turn has
// ended, a turn of its own.
func (m *machine) followUpReports(key string) {
	for i, x := range m.Expected {
		if x.For == key && x.Answered() {
			m.Expected[i].For = m.followUp(x)
			row := m.Expected[i]
			m.line(Line{Kind: LineEdge, What: WordExpected, Request: x.ID, From: m.Agent, To: x.To, Expected: &row, Trace: x.Cause.Trace})
		}
	}
}

// takeExpected removes and returns the waits that the turn of these messages takes up again.
func (m *machine) takeExpected(keys []string) (waits []Wait) {
	for _, x := range m.Expected {
		if slices.Contains(keys, x.For) {
			waits = append(waits, x.Wait)
		}
	}
	m.Expected = slices.DeleteFunc(m.Expected, func(x Expected) bool { return slices.Contains(keys, x.For) })
	return waits
}

// reportExpected takes a report that no active turn waits for. It returns false if the report was
// not expected.
func (m *machine) reportExpected(e Reported) bool {
	i := slices.IndexFunc(m.Expected, func(x Expected) bool { return e.answers(x.Wait, m.now) && !x.Answered() })
	if i < 0 {
		return false
	}
	x := &m.Expected[i]
	e.answer(&x.Wait)
	m.line(Line{
		Kind: LineEdge, What: WordReport, Key: e.Key, From: x.To, To: m.Agent, Request: x.ID, Response: cmp.Or(messageID(e.MeshID), e.Key),
		TurnID: x.Cause.TurnID, Outcome: e.Status, Reason: e.by(x.Wait), Trace: x.Cause.Trace,
	})
	x.For = m.messageForReport(*x)
	row := *x
	m.line(Line{Kind: LineEdge, What: WordExpected, Request: x.ID, From: m.Agent, To: x.To, Expected: &row, Trace: x.Cause.Trace})
	return true
}

// messageForReport returns the key of the message whose next turn gets the report x: the message
// whose turn died and runs again, or else a follow-up.
func (m *machine) messageForReport(x Expected) string {
	if row := m.message(x.For); row != nil && m.Turn.Key != x.For {
		return x.For
	}
	return m.followUp(x)
}

// followUp puts the cause of a turn into the inbox again, under a key of its own, so that its
// report has a turn. The answer goes to the recipient of the first turn's answer.
func (m *machine) followUp(x Expected) (key string) {
	msg := x.Cause
	msg.Key, msg.FollowsUp = followUpPrefix+x.ID, cmp.Or(msg.FollowsUp, msg.Key)
	m.noteSeen(msg.Key)
	m.Arrivals++
	msg.Seq, msg.Observed, msg.At = m.Arrivals, m.now, m.now
	msg.Status, msg.TurnID, msg.Epoch, msg.Attempts, msg.Cost, msg.Note = Queued, "", 0, 0, 0, ""
	msg.Reason, msg.NextRetryAt, msg.Damaged, msg.Refetches, msg.Working = "", time.Time{}, false, 0, false
	m.Inbox = append(m.Inbox, msg)
	m.Asleep = false
	m.line(Line{Kind: LineMessage, What: WordReport, Key: msg.Key, From: msg.From, Message: &msg})
	m.wake("report from "+x.To, "", Thread{}, false)
	return msg.Key
}

const (
	followUpPrefix = "report:"
)

// IsFollowUp reports whether the message brings a report to a message that already had its turn.
func (msg Message) IsFollowUp() bool { return strings.HasPrefix(msg.Key, followUpPrefix) }

// forgetExpected forgets each report whose deadline has passed. A report for a message in the inbox
// stays until that message has its turn.
func (m *machine) forgetExpected() {
	m.expireExpected(func(x Expected) bool {
		waits := m.message(x.For) != nil && m.Turn.Key != x.For
		return !waits && (x.Answered() || !m.now.Before(x.By))
	})
}

// expireExpected forgets the expected reports that are over.
func (m *machine) expireExpected(over func(Expected) bool) {
	m.Expected = slices.DeleteFunc(m.Expected, func(x Expected) bool {
		if !over(x) {
			return false
		}
		m.line(Line{Kind: LineEdge, What: WordLapsed, Request: x.ID, From: m.Agent, To: x.To, TurnID: x.Cause.TurnID, Trace: x.Cause.Trace})
		return true
	})
}

// applyExpectedLine restores the expected report of a history line.
func (m *machine) applyExpectedLine(l Line) {
	switch {
	case l.Kind == LineEdge && l.Expected != nil:
		m.addExpected(*l.Expected)
	case l.Kind == LineEdge && l.What == WordLapsed:
		m.removeExpected(l.Request)
	}
	if l.Head == nil {
		return
	}
	for _, w := range l.Head.Waiting {
		if w.Missed == "" {
			m.removeExpected(w.ID) // its turn has taken it up
		}
	}
}
