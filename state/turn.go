package state

import (
	"slices"
	"strings"
	"time"
)

// coolAfter is how many failed turns in a row earn a cool-down (DESIGN 6).
const coolAfter = 5

// message finds an inbox row by key.
func (m *machine) message(key string) (int, bool) {
	i := slices.IndexFunc(m.Inbox, func(msg Message) bool { return msg.Key == key })
	return i, i >= 0
}

// runnable says whether nothing holds this message back.
func (s State) runnable(msg Message, p Policy, now time.Time) bool {
	if !p.Turns || s.Halted() || now.Before(s.CooldownUntil) {
		return false
	}
	return msg.Status == Queued || msg.Status == Deferred && !now.Before(msg.NextRetryAt)
}

// CanRun says whether a turn could be claimed at now.
func (s State) CanRun(p Policy, now time.Time) bool {
	return s.Turn.Status == HeadIdle && s.next(p, now) >= 0
}

// next is the inbox index of the message that runs next: of those that can,
// the one that arrived first; -1 when there is none.
func (s State) next(p Policy, now time.Time) int {
	return slices.IndexFunc(s.Inbox, func(msg Message) bool { return s.runnable(msg, p, now) })
}

// hasWork: a turn dispatched, running or suspended, or an operator message
// that could run now. What is held back is not work (DESIGN 1).
func (m *machine) hasWork() bool {
	if m.Turn.Status != HeadIdle {
		return true
	}
	return slices.ContainsFunc(m.Inbox, func(msg Message) bool {
		return msg.Operator && m.runnable(msg, m.policy, m.now)
	})
}

// claimed leases the next message: it gets its turn id, kept through retries,
// and the turn a new epoch.
func (m *machine) claimed() {
	if m.Turn.Status != HeadIdle {
		return
	}
	i := m.next(m.policy, m.now)
	if i < 0 {
		return
	}
	msg := &m.Inbox[i]
	if msg.TurnID == "" {
		msg.TurnID = strings.ReplaceAll(m.mint("t"), ".", "")
	}
	m.Epoch++
	msg.Epoch = m.Epoch
	msg.Attempts++
	msg.Status = Pending
	msg.NextRetryAt = time.Time{}
	m.Turn = Head{Status: HeadDispatched, TurnID: msg.TurnID, Epoch: m.Epoch, Key: msg.Key, Since: m.now}
	m.turnLine("dispatched", "")
}

func (m *machine) started(e Started) {
	if m.stale(e.TurnID, e.Epoch, "started") {
		return
	}
	m.Turn.Status = HeadRunning
	if i, ok := m.message(m.Turn.Key); ok {
		m.Inbox[i].Status = Processing
	}
	m.turnLine("running", "")
}

// ended closes the turn with its one deliverable and its one task line.
func (m *machine) ended(e Ended) {
	if m.stale(e.TurnID, e.Epoch, "ended") {
		return
	}
	m.line(Line{
		Kind: LineTask, Key: m.Turn.Key, TurnID: e.TurnID, Epoch: e.Epoch, Outcome: e.Outcome,
		OutputBox: e.OutputBox, Deliverable: e.Deliverable, Reason: e.Reason,
	})
	if e.Reply != nil {
		m.queue(*e.Reply)
	}
	if i, ok := m.message(m.Turn.Key); ok {
		// The reply is about to leave, or is on the terminal: "going quiet" must
		// not come on its heels.
		if m.Inbox[i].Source == CLI || e.Reply != nil && e.Reply.Channel == ByMail {
			m.LastDelivery = m.now
		}
		m.Inbox = slices.Delete(m.Inbox, i, i+1)
	}
	m.Turn = Head{Status: HeadIdle}
	m.countOutcome(e.Outcome)
}

// countOutcome keeps the row of failures that earns a cool-down.
func (m *machine) countOutcome(o Outcome) {
	switch o {
	case Success, Partial:
		m.FailedTurns = 0
	case Failed, Timeout:
		m.FailedTurns++
		if m.FailedTurns >= coolAfter {
			m.CooldownUntil = m.now.Add(m.policy.Cooldown)
		}
	case Canceled:
		// Says nothing about whether turns work.
	}
}

// retryNote is told to the agent that gets a message again.
const retryNote = "An earlier attempt at this message was cut short. Its work may be half done: look before you repeat it."

// reaped returns a dead turn's message to the queue. The epoch rises, so that
// an owner that was thought dead finds itself stale.
func (m *machine) reaped(e Reaped) {
	if m.Turn.Status != HeadDispatched && m.Turn.Status != HeadRunning || m.stale(e.TurnID, e.Epoch, "reaped") {
		return
	}
	m.turnLine("reaped", e.Reason)
	m.Epoch++
	if i, ok := m.message(m.Turn.Key); ok {
		m.Inbox[i].Status = Queued
		m.Inbox[i].Epoch = m.Epoch
		m.Inbox[i].Note = retryNote
	}
	m.Turn = Head{Status: HeadIdle}
}

// stale says whether (turnID, epoch) may not write for the turn any more, and
// leaves the one trace it is allowed: a history line.
func (m *machine) stale(turnID string, epoch uint64, what string) bool {
	if m.Turn.Owns(turnID, epoch) {
		return false
	}
	m.line(Line{Kind: LineTurn, TurnID: turnID, Epoch: epoch, What: "stale", Reason: what})
	return true
}

func (m *machine) turnLine(what, reason string) {
	m.line(Line{Kind: LineTurn, Key: m.Turn.Key, TurnID: m.Turn.TurnID, Epoch: m.Turn.Epoch, What: what, Reason: reason})
}
