package state

import (
	"cmp"
	"slices"
)

// Whole puts lines in their order and parts off those of a commit that a power
// cut has torn: a part of it would be a lie. Nothing that commit asked for was
// done, since it never came to its end.
func Whole(lines []Line) (whole, torn []Line) {
	slices.SortStableFunc(lines, func(a, b Line) int {
		return cmp.Or(cmp.Compare(a.Serial, b.Serial), cmp.Compare(a.N, b.N))
	})
	end := len(lines)
	if end == 0 || lines[end-1].Last {
		return lines, nil
	}
	serial := lines[end-1].Serial
	for end > 0 && lines[end-1].Serial == serial {
		end--
	}
	return lines[:end], lines[end:]
}

// Rebuild makes a state from the history alone. It is in IDLE, and its mail
// cursor asks for everything since the day before the last mail it took: lines
// of other sources do not prove that the mailbox was read.
func Rebuild(s State, lines []Line) State {
	s = Replay(s, lines)
	s.Phase = IDLE
	if len(lines) > 0 {
		s.Cursor = Cursor{Complete: lines[0].At}
	}
	for _, l := range lines {
		if l.Source == Mail {
			s.Cursor.Complete = l.At
		}
	}
	return s
}

// Replay applies the history lines, in order, that are newer than s: accepted messages,
// ended rows, queued and done effects, HALT, the phase, the highest epoch.
func Replay(s State, lines []Line) State {
	m := machine{State: s.clone()}
	for _, l := range lines {
		if l.Serial <= s.Serial {
			continue
		}
		m.now = l.At
		m.applyLine(l)
		m.Serial = l.Serial
		m.Epoch = max(m.Epoch, l.Epoch)
	}
	m.Lines = nil
	return m.State
}

// applyLine applies one line.
func (m *machine) applyLine(l Line) {
	switch l.Kind {
	case LineMessage:
		m.applyMessageLine(l)
	case LineGate:
		m.applyGateLine(l)
	case LineQuarantine:
		m.applyQuarantineLine(l)
	case LineChallenge:
		m.applyChallengeLine(l)
	case LineDuplicate, LineNote, LineEdge:
		m.noteSeen(l.Key)
	case LineNudge:
		m.noteNudge(l.Source, l.Key)
	case LineTransition:
		m.Phase, m.PhaseSince = l.New, l.At
	case LineTask:
		m.removeMessage(l.Key)
	case LineControl:
		m.noteSeen(l.Key)
		m.noteSeen(l.Digest)
		m.LastOperator = l.At
	case LineReset:
		m.Reset = Reset{At: l.At, Note: l.Reason, Origin: l.From, Arrivals: m.Arrivals, Epoch: m.Epoch}
		m.Compacted = Summary{}
	case LineCompaction:
		m.applyCompactionLine(l)
	case LineEnded:
		m.noteSeen(l.Key)
		m.removeMessage(l.Key)
	case LineEffect:
		m.applyEffectLine(l)
	case LineDelivery:
		m.applyDeliveryLine(l)
	case LineCredential:
		m.applyCredentialLine(l)
	case LineHalt:
		m.applyHaltLine(l)
	case LineSpend:
		m.applySpendLine(l)
	case LineCredit:
		m.applyCreditLine(l)
	case LineTier:
		m.Purse.Tier = Tier(l.What)
	case LineSchedule:
		m.applyScheduleLine(l)
	}
	m.applyHead(l)
}

// applyEffectLine queues an effect again, and counts it where it is rationed.
func (m *machine) applyEffectLine(l Line) {
	if _, there := m.effectIndex(l.ID); there || l.Effect == nil {
		return
	}
	m.Outbox = append(m.Outbox, *l.Effect)
	switch l.Effect.Kind {
	case Ack:
		m.Acks = append(m.Acks, l.At)
	case Quiet:
		m.Quiets = append(m.Quiets, l.At)
	case Alarm:
		m.Alarms = append(m.Alarms, l.At)
	}
	m.applyNotification(*l.Effect)
}

// applyCredentialLine begins and ends outages, so that none is told twice. How often
// one has failed is counted anew.
func (m *machine) applyCredentialLine(l Line) {
	if l.What == credentialWorks {
		delete(m.Credentials, l.From)
		return
	}
	if !m.Fails(l.From) {
		m.setCredential(l.From, Credential{Failures: 1, Since: l.At, Reason: l.Reason})
	}
}

// applyNotification notes who is told of an outage by an effect.
func (m *machine) applyNotification(e Effect) {
	c, fails := m.Credentials[e.Credential]
	switch {
	case !fails:
		return
	case e.Kind == Alarm:
		c.Keymaster = Notification{ID: e.ID}
	case e.canReroute():
		c.Operator = Notification{ID: e.ID}
	}
	m.Credentials[e.Credential] = c
}

func (m *machine) applyDeliveryLine(l Line) {
	i, there := m.effectIndex(l.ID)
	if !there {
		return
	}
	if l.What == "undeliverable" {
		m.Undeliverable++
	}
	if l.What == "sent" {
		m.restartSilence(m.Outbox[i])
		m.changeNotification(l.ID, func(t *Notification) { t.Sent = true })
	}
	m.Outbox = slices.Delete(m.Outbox, i, i+1)
}

// applyScheduleLine knows whether our line is wanted. What is installed is looked up
// by the next cycle.
func (m *machine) applyScheduleLine(l Line) {
	switch l.What {
	case scheduleRemoved:
		m.Schedule = Schedule{Removed: true}
	case scheduleWanted:
		m.Schedule = Schedule{}
	}
}

func (m *machine) applyMessageLine(l Line) {
	if l.Message == nil {
		return
	}
	m.noteSeen(l.Key)
	m.noteSeen(l.Digest)
	m.Arrivals = max(m.Arrivals, l.Message.Seq)
	if l.Message.Operator && l.What != lineRetried {
		m.LastOperator = l.At
	}
	if _, there := m.messageIndex(l.Key); !there {
		m.Inbox = append(m.Inbox, *l.Message)
	}
}

// applyHead sets the turn head, and its message's row, to what a step left them
// at: its last line holds both.
func (m *machine) applyHead(l Line) {
	if l.Head == nil {
		return
	}
	m.Turn = *l.Head
	m.Epoch = max(m.Epoch, l.Head.Epoch)
	if l.Row == nil {
		return
	}
	m.Epoch = max(m.Epoch, l.Row.Epoch)
	if i, there := m.messageIndex(l.Row.Key); there {
		m.Inbox[i] = *l.Row
	}
}

func (m *machine) applyHaltLine(l Line) {
	on := l.What == "halt"
	if l.From == "mesh" {
		m.HaltedMesh = on
		return
	}
	m.HaltedHere = on
}

// removeMessage removes a message from the inbox.
func (m *machine) removeMessage(key string) {
	m.Inbox = slices.DeleteFunc(m.Inbox, func(msg Message) bool { return msg.Key == key })
}
