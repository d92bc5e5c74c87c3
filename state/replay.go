package state

import (
	"cmp"
	"time"

	"agentstateloop/internal/order"
)

// Whole sorts lines and splits off the lines of a commit that a power cut has torn. Part of a
// commit would be misleading. The effects of the torn commit were never performed, because the
// commit did not return.
func Whole(lines []Line) (whole, torn []Line) {
	order.Stable(lines, func(a, b Line) int {
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

// Rebuild makes a state from the history alone. The state is in IDLE. Its mail cursor asks for
// everything since the day before the last accepted mail, because lines of other sources do not
// prove that the mailbox was read. It asks for more if a mail could not be fetched before.
func Rebuild(s State, lines []Line) State {
	s = Replay(s, lines)
	s.Phase, s.WokenBy, s.AckWaits, s.Unmailed = IDLE, "", WaitingAck{}, false
	if len(lines) > 0 {
		s.Cursor = Cursor{Complete: lines[0].At, Restored: s.Cursor.Restored}
	}
	for _, l := range lines {
		if l.Source == Mail {
			s.Cursor.Complete = l.At
		}
	}
	for _, since := range failingSince(lines) {
		s.Cursor.Complete = earlier(s.Cursor.Complete, since)
	}
	return s
}

// failingSince returns, by key, since when a mail cannot be fetched, as the lines record it.
func failingSince(lines []Line) map[string]time.Time {
	since := map[string]time.Time{}
	for _, l := range lines {
		switch {
		case l.Kind == LineFetch && l.What == WordFailing:
			if _, known := since[l.Key]; !known {
				since[l.Key] = l.At
			}
		case l.Kind == LineFetch && l.What == WordEnded, l.Kind == LineEnded, l.arrives():
			delete(since, l.Key)
		}
	}
	return since
}

// Replay applies, in order, the history lines that are newer than s: accepted messages, ended rows,
// queued and finished effects, HALT, the phase, the highest epoch.
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
	m.Cursor.Swept = time.Time{} // a sweep looks for mail that was lost with the state
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
	case LineDuplicate, LineNote:
		m.noteSeen(l.Key)
	case LineEdge:
		if m.task.Row != nil && l.What == WordReport && l.From == m.Agent && l.TurnID == m.task.TurnID {
			m.noteAnswer(*m.task.Row, l, l.At)
		}
		m.applyOperatorAnswerLine(l)
		if l.Source != Nudge { // only the line of a nudge itself has its origin
			m.noteSeen(l.Key)
		}
	case LineNudge:
		m.noteNudge(l.Source, l.Key, l.From)
		m.noteRing(Ring{From: l.From, Reason: ringReason(l.Reason), Source: l.Source, At: l.At})
	case LineTransition:
		m.applyTransitionLine(l)
	case LineTask:
		m.task = l
		m.removeMessage(l.Key)
		for _, other := range l.Collected {
			m.removeMessage(other.Key)
		}
		m.noteDeliverable(l.TurnID, l.Epoch, l.OutputBox+"/"+l.Deliverable)
	case LineTurn:
		m.applyTurnLine(l)
	case LineSleep:
		m.applySleepLine(l)
	case LineControl:
		m.noteSeen(l.Key)
		m.noteSeen(l.Digest)
		m.LastOperator = l.At
		m.operatorHeard()
		m.noteMail(Message{Key: l.Key, Source: l.Source, From: l.From, At: l.At}, "")
	case LineReset:
		m.Reset = Reset{At: l.At, Note: l.Reason, Origin: l.From, Arrivals: m.Arrivals, Epoch: m.Epoch}
		m.endConversations()
		m.operatorHeard()
	case LineCompaction:
		m.applyCompactionLine(l)
	case LineEnded:
		m.noteSeen(l.Key)
		m.noteSeen(l.Digest)
		m.removeMessage(l.Key)
		m.forgetUnfetched(l.Key)
	case LineFetch:
		m.applyFetchLine(l)
	case LineEffect:
		m.applyEffectLine(l)
	case LineAck:
		m.applyAckLine(l)
	case LineDelivery:
		m.applyDeliveryLine(l)
	case LineGivenUp:
		if l.What == WordSent {
			m.noteReplyEnded(l.ID, l.What, l.At)
		}
		m.applyUndeliveredLine(l)
	case LineSending:
		m.applySendingLine(l)
	case LineDamage:
		m.applyDamageLine(l)
	case LineCredential:
		m.applyCredentialLine(l)
	case LineBackend:
		m.applyBackendLine(l)
	case LineHalt:
		m.applyHaltLine(l)
	case LineSpend:
		m.applySpendLine(l)
	case LineCredit:
		m.applyCreditLine(l)
	case LineBounce:
		m.applyBounceLine(l)
	case LineTier:
		m.Purse.Tier = Tier(l.What)
	case LineSchedule:
		m.applyScheduleLine(l)
	case LinePrompt:
		m.applyPromptLine(l)
	case LineNumber:
		m.applyNumberLine(l)
	case LineRecovery:
		m.applyRestoreLine(l)
	}
	m.applyExpectedLine(l)
	m.applyHead(l)
}

// Recovered reports that state.json could not be used and was rebuilt.
type Recovered struct{ Reason string }

// apply tells the operator once. Only the lost state recorded which effects were about to be sent,
// so each may have been sent.
func (e Recovered) apply(m *machine) {
	m.line(Line{Kind: LineRecovery, Reason: e.Reason})
	for i := range m.Outbox {
		row := &m.Outbox[i]
		row.Unknown, row.Copies = true, max(1, row.Copies)
		if row.Reason == "" {
			row.Reason = "the state that recorded its outcome is lost"
		}
	}
	m.notice("My state file could not be used (" + e.Reason + "). I rebuilt it from its copy and the history and keep running; no accepted message was lost.")
}

// Redacted implements [Redactable].
func (e Recovered) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}
