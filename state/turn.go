package state

import (
	"cmp"
	"strings"
	"time"
)

// coolAfter is how many failed turns in a row cause a cool-down (docs/design.md,
// "Turns").
const coolAfter = 5

// Claimed reports that the holder of turn.lock asks for the next message to run. Pull is set by
// `inbox next`, with which an agent takes the message itself.
type Claimed struct{ Pull bool }

// apply leases the next message, whose turn id is the same for all attempts, or resumes the
// suspended turn. In both cases the epoch rises.
func (e Claimed) apply(m *machine) {
	if m.Turn.Status != HeadIdle {
		if m.CanRun(m.policy, m.now) {
			m.resume()
		}
		return
	}
	if m.Turn.Lingering() {
		return
	}
	policy := m.policy
	policy.Turns = policy.Turns || e.Pull
	i := m.nextMessage(policy, m.now)
	if i < 0 {
		return
	}
	leased := m.lease(policy, i)
	var with []string
	for _, j := range leased[:len(leased)-1] {
		with = append(with, m.Inbox[j].Key)
	}
	msg := &m.Inbox[leased[len(leased)-1]]
	msg.Trace = cmp.Or(msg.Trace, m.mintTrace(msg.Key))
	if msg.TurnID == "" {
		if msg.Source == Self {
			m.beginSelfTurn(*msg)
		}
		msg.TurnID = strings.ReplaceAll(m.mint("t"), ".", "")
	}
	m.Epoch++
	msg.Epoch = m.Epoch
	msg.Attempts++
	msg.Status = Pending
	msg.NextRetryAt, msg.Reason = time.Time{}, ""
	m.forgetCounted()
	m.Turn = Head{
		Status: HeadDispatched, TurnID: msg.TurnID, Epoch: m.Epoch, Key: msg.Key, Since: m.now, Pulled: e.Pull, Working: msg.Working,
		With: with, Waiting: m.takeExpected(append([]string{msg.Key}, with...)),
	}
	m.followLead(*msg)
	m.turnLine(WordDispatched, "")
}

// resume dispatches the next attempt of a suspended turn. The attempt gets the answers, which are
// removed once it runs.
func (m *machine) resume() {
	m.Epoch++
	if msg := m.message(m.Turn.Key); msg != nil {
		msg.Epoch = m.Epoch
		m.followLead(*msg)
	}
	m.Turn.Status, m.Turn.Epoch, m.Turn.Since, m.Turn.Resumed = HeadDispatched, m.Epoch, m.now, true
	m.turnLine(WordDispatched, "resumed")
}

// Started reports that the process of the turn is running.
type Started struct {
	TurnID string
	Epoch  uint64

	// Instead says which backend runs the turn, and why the first one does not; "" if the first one
	// does.
	Instead string
}

func (e Started) apply(m *machine) {
	if m.stale(e.TurnID, e.Epoch, "started") {
		return
	}
	m.forgetRings()
	m.Turn.Status = HeadRunning
	m.Turn.handAnswers()
	if msg := m.message(m.Turn.Key); msg != nil {
		msg.Status = Processing
		m.followLead(*msg)
	}
	m.turnLine(WordRunning, e.Instead)
}

// Redacted implements [Redactable].
func (e Started) Redacted(redact func(string) string) Event {
	e.Instead = redact(e.Instead)
	return e
}

// Ended reports that the turn is over, with its deliverable.
type Ended struct {
	TurnID      string
	Epoch       uint64
	Outcome     Outcome
	Reason      string
	OutputBox   string  // turns/<turn_id>/<epoch>/output
	Deliverable string  // a file in OutputBox
	Fields      string  // another file, with the results, or ""
	Reply       *Effect // rendered; nil if the sender gets no reply
	Session     Session // for the next turn to continue, or zero
	Refused     string  // the actions that the agent was not permitted, in words

	// Lingers reports that the agent has answered and its process still runs. Submitted is then the
	// deliverable that the agent had submitted when this one was chosen.
	Lingers   bool
	Submitted string
}

// apply closes the turn with its one deliverable and its one task line. If a lingering agent has
// submitted a deliverable meanwhile, nothing changes, and its runner chooses again.
func (e Ended) apply(m *machine) {
	if m.stale(e.TurnID, e.Epoch, "ended") || e.Lingers && m.Turn.Submitted != e.Submitted {
		return
	}
	task := Line{
		Kind: LineTask, Key: m.Turn.Key, TurnID: e.TurnID, Epoch: e.Epoch, Outcome: e.Outcome,
		OutputBox: e.OutputBox, Deliverable: e.Deliverable, Fields: e.Fields, Reason: e.Reason,
	}
	talk := m.TurnTalk(m.policy)
	msg, ok := m.TurnMessage()
	if msg.Fresh && (e.Outcome == Success || e.Outcome == Partial) {
		m.turnLine(WordFreshSession, "")
	}
	if e.Refused != "" {
		m.turnLine(WordNotPermitted, e.Refused)
	}
	if ok {
		task.Row = &msg
		task.Collected = m.collected()
	}
	m.line(task)
	m.noteDeliverable(e.TurnID, e.Epoch, e.OutputBox+"/"+e.Deliverable)
	if e.Reply != nil {
		reply := *e.Reply
		reply.Answers = answeredMails(reply, append([]Message{msg}, task.Collected...))
		m.queue(reply)
	}
	m.answerInsteadOfAck(msg, e.Reply)
	m.expectRest(e.Outcome)
	if ok {
		m.recordReply(msg, e)
		m.removeMessage(msg.Key)
		for _, other := range task.Collected {
			m.removeMessage(other.Key)
		}
	}
	m.Turn = Head{Status: HeadIdle}
	m.followUpReports(msg.Key)
	if e.Lingers {
		m.Turn.TurnID, m.Turn.Epoch, m.Turn.Since, m.Turn.Lingers = e.TurnID, e.Epoch, m.now, true
	}
	m.keepSession(talk, e.Session, e.Epoch)
	m.countOutcome(e.Outcome)
	if !m.Asleep && m.nothingToDo() {
		m.Asleep = true
		m.line(Line{Kind: LineSleep, What: WordAsleep})
	}
}

// Redacted implements [Redactable].
func (e Ended) Redacted(redact func(string) string) Event {
	e.Reason, e.Refused = redact(e.Reason), redact(e.Refused)
	e.Reply = redactedEffect(e.Reply, redact)
	return e
}

// recordReply records the answer to a message.
func (m *machine) recordReply(msg Message, e Ended) {
	reply := e.Reply
	// The reply is about to leave, or is on the terminal: "going quiet" must
	// not follow it at once.
	if msg.Source == CLI || reply != nil && reply.Channel == ByMail {
		m.LastDelivery = m.now
	}
	edge := Line{
		Kind: LineEdge, What: WordReport, Source: msg.Source, From: m.Agent, To: msg.From,
		Request: msg.request(), Response: e.TurnID, TurnID: e.TurnID, Outcome: e.Outcome, Reason: e.Refused,
	}
	if reply != nil {
		edge.To, edge.Response = reply.To, reply.ID
	}
	if reply != nil || msg.Source == CLI {
		m.line(edge)
		m.noteAnswer(msg, edge, m.now)
	}
}

// countOutcome counts failed turns in a row, and starts the cool-down.
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
		// It does not show whether turns work.
	}
}

// retryNote is the note to an agent that gets a message again.
const retryNote = "An earlier attempt at this message was interrupted. Its work may be half done: check before you repeat it."

// Reaped reports that the watchdog found the turn's owner dead.
type Reaped struct {
	TurnID string
	Epoch  uint64
	Reason string
}

// apply returns the message of a dead turn to the queue. The epoch rises, so that an owner that
// only seemed dead finds itself stale. The questions of the turn to other agents are forgotten; its
// outside work may still report.
func (e Reaped) apply(m *machine) {
	if !m.Turn.InAttempt() || m.stale(e.TurnID, e.Epoch, "reaped") {
		return
	}
	m.turnLine(WordReaped, e.Reason)
	m.requeue(Message{Status: Queued, Note: retryNote})
}

// Redacted implements [Redactable].
func (e Reaped) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

// GivenBack reports that the attempt could not do its work for a reason other than the message: its
// credential was denied, its backend is out, its session cannot continue, or its runner was told to
// stop. The attempt is repeated after Wait.
type GivenBack struct {
	TurnID string
	Epoch  uint64
	Reason string
	Wait   time.Duration

	// Fresh makes the next attempt begin a session of its own. Session, if not zero, is the session
	// to continue instead.
	Fresh   bool
	Session Session

	// Worked is set if the attempt had called tools. Counts is set if the attempt counts towards
	// the limit on attempts.
	Worked, Counts bool
}

// apply returns the message to the queue. It suspends a resumed turn again, with the answers that
// the attempt received.
func (e GivenBack) apply(m *machine) {
	if m.stale(e.TurnID, e.Epoch, "given back") {
		return
	}
	m.turnLine(WordGivenBack, e.Reason)
	if e.Session != (Session{}) {
		m.keepSession(m.TurnTalk(m.policy), e.Session, e.Epoch)
	}
	if msg := m.message(m.Turn.Key); msg != nil {
		msg.Fresh = e.Fresh
		if !m.Turn.Resumed && !e.Counts {
			msg.Attempts = max(0, msg.Attempts-1)
		}
		if e.Worked {
			msg.Note = retryNote
		}
	}
	switch {
	case m.Turn.Resumed:
		m.suspendAgain()
	case e.Wait > 0:
		m.requeue(Message{Status: Deferred, NextRetryAt: m.now.Add(min(e.Wait, maxDeferral)), Reason: e.Reason})
	default:
		m.requeue(Message{Status: Queued})
	}
}

// suspendAgain returns a resumed turn to its state before the attempt.
func (m *machine) suspendAgain() {
	m.Epoch++
	m.Turn.Status, m.Turn.Epoch, m.Turn.Since, m.Turn.Resumed = HeadSuspended, m.Epoch, m.now, false
	m.Turn.takeBackAnswers()
	if msg := m.message(m.Turn.Key); msg != nil {
		msg.Epoch = m.Epoch
		m.followLead(*msg)
	}
}

// Redacted implements [Redactable].
func (e GivenBack) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

// requeue makes the turn's message wait again, with the status of how, and makes the head idle.
func (m *machine) requeue(how Message) {
	m.expectAll()
	m.Epoch++
	if msg := m.message(m.Turn.Key); msg != nil {
		msg.Status, msg.NextRetryAt, msg.Reason, msg.Epoch = how.Status, how.NextRetryAt, how.Reason, m.Epoch
		msg.Working = m.Turn.Working
		msg.Note = cmp.Or(how.Note, msg.Note)
		m.followLead(*msg)
	}
	m.Turn = Head{Status: HeadIdle}
}

// stale reports whether (turnID, epoch) may not write for the turn any more. A stale write leaves
// only a history line.
func (m *machine) stale(turnID string, epoch uint64, what string) bool {
	if m.Turn.Owns(turnID, epoch) {
		return false
	}
	m.line(Line{Kind: LineTurn, TurnID: turnID, Epoch: epoch, What: WordStale, Reason: what})
	return true
}

func (m *machine) turnLine(what Word, reason string) {
	m.line(Line{Kind: LineTurn, Key: m.Turn.Key, TurnID: m.Turn.TurnID, Epoch: m.Turn.Epoch, What: what, Reason: reason})
}
