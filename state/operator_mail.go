package state

import "time"

// mailsAnHour bounds acks and quiets, each (docs/design.md, "Phases").
const mailsAnHour = 6

// ack makes the mail that says the agent is awake, or lets it wait for `[replies] ack_after`. key
// is the key of the message that woke the agent, or "".
func (m *machine) ack(key string, thread Thread) {
	w := WaitingAck{Key: key, Thread: thread, Text: m.wokenFor}
	switch {
	case !m.mayAck() || m.Halted():
	case m.policy.AckAfter > 0:
		m.letAckWait(w)
	default:
		w.Key = "" // without a key it is not withdrawn
		m.makeAck(w)
	}
}

// mayAck reports whether acks are wanted and the hourly limit allows one more.
func (m *machine) mayAck() bool {
	return m.policy.HasMail && m.policy.Ack && len(m.Acks) < mailsAnHour
}

// makeAck queues an ack.
func (m *machine) makeAck(w WaitingAck) {
	m.Acks = append(m.Acks, m.now)
	m.queue(Effect{Kind: Ack, Channel: ByMail, To: m.policy.Operator, Thread: w.Thread, Text: w.Text, Cause: w.Key})
	m.Unmailed = false
	m.noteNudgeAck()
}

// quiet makes the mail that says the agent goes back to sleep.
func (m *machine) quiet(from Phase) {
	on := m.policy.QuietPrep
	if from == ACTIVE {
		on = m.policy.QuietActive
	}
	if !m.policy.HasMail || !on || m.Halted() || len(m.Quiets) >= mailsAnHour {
		return
	}
	m.Quiets = append(m.Quiets, m.now)
	m.queue(Effect{Kind: Quiet, Channel: ByMail, To: m.policy.Operator, From: from, Thread: m.Thread})
}

// notice makes a mail that reports a fault.
func (m *machine) notice(text string) {
	if !m.policy.HasMail || !m.policy.Notices {
		return
	}
	m.queue(Effect{Kind: Notice, Channel: ByMail, To: m.policy.Operator, Text: text})
}

// workingAfter is how long a turn runs before the operator is told.
const workingAfter = 2 * time.Minute

// mailStillWorking makes the one mail about a long turn (docs/design.md, "Our mail").
func (m *machine) mailStillWorking() {
	if m.Turn.Status != HeadRunning || m.Turn.Working || m.now.Sub(m.Turn.Since) < workingAfter {
		return
	}
	m.Turn.Working = true
	msg, ok := m.TurnMessage()
	if !ok || !msg.Operator || msg.Source != Mail {
		return
	}
	if m.policy.HasMail && m.policy.Working && !m.Halted() {
		m.queue(Effect{Kind: Working, Channel: ByMail, To: msg.From, TurnID: m.Turn.TurnID, Thread: m.Thread})
		m.workingInsteadOfAck()
	}
}
