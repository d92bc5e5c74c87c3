package state

import "time"

// mailsAnHour bounds acks and quiets, each (docs/design.md, "Phases").
const mailsAnHour = 6

// ack makes the mail that says that the agent is standing by.
func (m *machine) ack(thread Thread) {
	if !m.policy.HasMail || !m.policy.Ack || m.Halted() || len(m.Acks) >= mailsAnHour {
		return
	}
	m.Acks = append(m.Acks, m.now)
	m.queue(Effect{Kind: Ack, Channel: ByMail, To: m.policy.Operator, Thread: thread, Text: m.wokenFor})
	m.noteRinging()
}

// quiet makes the mail that says that the agent goes back to sleep.
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

// workingAfter is how long a turn runs before the operator is informed.
const workingAfter = 2 * time.Minute

// stillWorking makes the one mail that a long turn causes (docs/design.md, "Our
// mail").
func (m *machine) stillWorking() {
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
	}
}
