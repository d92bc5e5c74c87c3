package state

import (
	"slices"
	"strings"
	"time"
)

// coolAfter is how many failed turns in a row earn a cool-down (DESIGN 6).
const coolAfter = 5

// Claimed: the holder of turn.lock asks for the next message to run. Pull is
// `inbox next`, by which an agent that pulls takes it.
type Claimed struct{ Pull bool }

// apply leases the next message, which gets its turn id, kept through
// retries, or lets the suspended turn go on. Either way the epoch rises.
func (e Claimed) apply(m *machine) {
	if m.Turn.Status != HeadIdle {
		if m.CanRun(m.policy, m.now) {
			m.resume()
		}
		return
	}
	policy := m.policy
	policy.Turns = policy.Turns || e.Pull
	i := m.nextMessage(policy, m.now)
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
	m.forgetCounted()
	m.Turn = Head{Status: HeadDispatched, TurnID: msg.TurnID, Epoch: m.Epoch, Key: msg.Key, Since: m.now, Pulled: e.Pull, Working: msg.Working}
	m.turnLine("dispatched", "")
}

// resume starts the next attempt of a suspended turn. What it waited for is
// handed to it, and struck out once it runs.
func (m *machine) resume() {
	m.Epoch++
	if i, ok := m.message(m.Turn.Key); ok {
		m.Inbox[i].Epoch = m.Epoch
	}
	m.Turn.Status, m.Turn.Epoch, m.Turn.Since, m.Turn.Resumed = HeadDispatched, m.Epoch, m.now, true
	m.turnLine("dispatched", "resumed")
}

// Started: the process of the turn runs.
type Started struct {
	TurnID string
	Epoch  uint64
}

func (e Started) apply(m *machine) {
	if m.stale(e.TurnID, e.Epoch, "started") {
		return
	}
	m.Turn.Status = HeadRunning
	m.Turn.Waiting = slices.DeleteFunc(m.Turn.Waiting, Wait.Answered)
	if len(m.Turn.Waiting) == 0 {
		m.Turn.ResumeBy, m.Turn.Patience = time.Time{}, 0
	}
	if i, ok := m.message(m.Turn.Key); ok {
		m.Inbox[i].Status = Processing
	}
	m.turnLine("running", "")
}

// Ended: the turn is over, with its deliverable.
type Ended struct {
	TurnID      string
	Epoch       uint64
	Outcome     Outcome
	Reason      string
	OutputBox   string  // turns/<turn_id>/<epoch>/output
	Deliverable string  // a file in that box
	Reply       *Effect // rendered; nil when nobody is to be sent it
	Session     Session // to go on with; zero when there is none
}

// apply closes the turn with its one deliverable and its one task line.
func (e Ended) apply(m *machine) {
	if m.stale(e.TurnID, e.Epoch, "ended") {
		return
	}
	task := Line{
		Kind: LineTask, Key: m.Turn.Key, TurnID: e.TurnID, Epoch: e.Epoch, Outcome: e.Outcome,
		OutputBox: e.OutputBox, Deliverable: e.Deliverable, Reason: e.Reason,
	}
	i, ok := m.message(m.Turn.Key)
	if ok {
		row := m.Inbox[i]
		task.Row = &row
	}
	m.line(task)
	if e.Reply != nil {
		m.queue(*e.Reply)
	}
	if ok {
		m.recordReply(m.Inbox[i], e.Reply)
		m.Inbox = slices.Delete(m.Inbox, i, i+1)
	}
	m.Turn = Head{Status: HeadIdle}
	m.keepSession(e.Session, e.Epoch)
	m.countOutcome(e.Outcome)
	if len(m.Inbox) == 0 && !m.Asleep {
		m.Asleep = true
		m.line(Line{Kind: LineSleep, What: "asleep"})
	}
}

// Redacted implements [Redactable].
func (e Ended) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	e.Reply = redactedEffect(e.Reply, redact)
	return e
}

// keepSession notes the session that the next turn continues. One that began
// before a reset, or that ends in IDLE, holds what is to be forgotten.
func (m *machine) keepSession(s Session, epoch uint64) {
	if epoch <= m.Reset.Epoch || m.Phase == IDLE {
		s = Session{}
	}
	if s.ID != "" && s.ID == m.Session.ID {
		s.Vain = m.Session.Vain
	}
	m.Session = s
}

// recordReply notes that a message has its answer.
func (m *machine) recordReply(msg Message, reply *Effect) {
	// The reply is about to leave, or is on the terminal: "going quiet" must
	// not come on its heels.
	if msg.Source == CLI || reply != nil && reply.Channel == ByMail {
		m.LastDelivery = m.now
	}
	if reply != nil && reply.Channel == ByMesh {
		m.line(Line{Kind: LineEdge, What: "report", From: m.Agent, To: msg.From, Request: msg.Correlation, Response: reply.ID, TurnID: reply.TurnID})
	}
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

// Reaped: the watchdog found that the turn's owner has died.
type Reaped struct {
	TurnID string
	Epoch  uint64
	Reason string
}

// apply returns a dead turn's message to the queue. The epoch rises, so that
// an owner that was thought dead finds itself stale; what the turn waited for
// is forgotten with it.
func (e Reaped) apply(m *machine) {
	if m.Turn.Status != HeadDispatched && m.Turn.Status != HeadRunning || m.stale(e.TurnID, e.Epoch, "reaped") {
		return
	}
	m.turnLine("reaped", e.Reason)
	m.requeue(Queued, time.Time{}, retryNote)
}

// Redacted implements [Redactable].
func (e Reaped) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

// GivenBack: the attempt could not do its work, and not for the message's
// sake: its credential was refused, its session is gone, its runner was told
// to go. It does not count, and is made again after Wait.
type GivenBack struct {
	TurnID string
	Epoch  uint64
	Reason string
	Wait   time.Duration
	Forget bool // the session is gone
}

// apply returns the message without counting the attempt.
func (e GivenBack) apply(m *machine) {
	if m.stale(e.TurnID, e.Epoch, "given back") {
		return
	}
	m.turnLine("given back", e.Reason)
	if e.Forget {
		m.Session = Session{}
	}
	if i, ok := m.message(m.Turn.Key); ok && !m.Turn.Resumed {
		m.Inbox[i].Attempts = max(0, m.Inbox[i].Attempts-1)
	}
	if e.Wait > 0 {
		m.requeue(Deferred, m.now.Add(min(e.Wait, longestDeferral)), "")
		return
	}
	m.requeue(Queued, time.Time{}, "")
}

// Redacted implements [Redactable].
func (e GivenBack) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

// requeue lets the turn's message wait again, and the head go idle.
func (m *machine) requeue(status Status, until time.Time, note string) {
	m.Epoch++
	if i, ok := m.message(m.Turn.Key); ok {
		msg := &m.Inbox[i]
		msg.Status, msg.NextRetryAt, msg.Epoch = status, until, m.Epoch
		msg.Working = m.Turn.Working
		if note != "" {
			msg.Note = note
		}
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
