package state

import "slices"

// Files that differ from their rows (docs/design.md, "Damaged files"). The machine decides what to
// do with the row. Package cycle finds the damage, and restores the file if possible.

// maxRefetches is how many polls in a row may fail to fetch a damaged mail again. Then the mail is
// given up.
const maxRefetches = 3

// Damaged reports that the payload of a waiting message is damaged. Reason describes the damage and
// names the file.
type Damaged struct{ Key, Reason string }

// apply holds a mail until it has been fetched again. Any other message cannot be fetched again,
// and is given up.
func (e Damaged) apply(m *machine) {
	msg := m.message(e.Key)
	switch {
	case msg == nil || msg.Damaged || msg.givenUp():
		return
	case (m.Turn.Key == e.Key || slices.Contains(m.Turn.With, e.Key)) && m.Turn.InAttempt():
		return // its attempt has read it, or reports that it cannot
	case msg.Source != Mail || !m.policy.HasMail:
		m.giveUpDamaged(*msg, e.Reason)
		return
	}
	m.holdDamaged(msg, e.Reason)
	m.line(Line{Kind: LineDamage, What: WordDamaged, Key: e.Key, Source: msg.Source, From: msg.From, Reason: e.Reason})
}

// Redacted implements [Redactable].
func (e Damaged) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

// holdDamaged makes a message with a damaged payload wait.
func (m *machine) holdDamaged(msg *Message, why string) {
	m.leaveLease(msg)
	msg.Damaged, msg.Reason = true, why
	if msg.Status == Queued {
		msg.Status = Deferred
	}
}

// endDamage lets a message whose payload is intact again have its turn.
func (msg *Message) endDamage() {
	msg.Damaged, msg.Refetches, msg.Reason = false, 0, ""
	if msg.Status == Deferred {
		msg.Status = Queued
	}
}

// applyDamageLine holds a message again, or releases it.
func (m *machine) applyDamageLine(l Line) {
	msg := m.message(l.Key)
	switch {
	case msg == nil:
	case l.What == WordDamaged && !msg.Damaged:
		m.holdDamaged(msg, l.Reason)
	case l.What == WordMended && msg.Damaged:
		msg.endDamage()
	}
}

// givenUp reports whether a damaged payload could not be fetched again, so that a turn that waits
// for other agents must go on without it.
func (msg Message) givenUp() bool { return msg.Refetches >= maxRefetches }

// Mended reports that the payload of a message is intact again.
type Mended struct{ Key string }

// apply lets the message have its turn.
func (e Mended) apply(m *machine) {
	msg := m.message(e.Key)
	if msg == nil || !msg.Damaged {
		return
	}
	msg.endDamage()
	m.line(Line{Kind: LineDamage, What: WordMended, Key: e.Key, Source: msg.Source, From: msg.From})
}

// NotMended reports that the mailbox was asked for a damaged mail and did not have it, or had other
// bytes.
type NotMended struct{ Key, Reason string }

// apply lets the mail wait for the next poll, because a server may be wrong once. After the third
// time in a row the mail is given up.
func (e NotMended) apply(m *machine) {
	msg := m.message(e.Key)
	if msg == nil || !msg.Damaged {
		return
	}
	msg.Refetches++
	if !msg.givenUp() {
		m.line(Line{Kind: LineDamage, What: WordMissing, Key: e.Key, Source: msg.Source, From: msg.From, Reason: e.Reason})
		return
	}
	m.giveUpDamaged(*msg, msg.Reason+"; "+e.Reason)
}

// Redacted implements [Redactable].
func (e NotMended) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

// giveUpDamaged ends a message that cannot be fetched again. It tells the operator, and the agent
// that sent the message. It does not end the message of a suspended turn: that turn goes on, and
// fails because of the damage.
func (m *machine) giveUpDamaged(msg Message, reason string) {
	if m.Turn.Status != HeadIdle && m.Turn.Key == msg.Key {
		row := m.message(msg.Key)
		row.Damaged, row.Refetches = false, maxRefetches
		return
	}
	m.line(Line{Kind: LineEnded, Key: msg.Key, Source: msg.Source, From: msg.From, What: Word(Errored), Reason: reason})
	m.removeMessage(msg.Key)
	m.tellOperator(Effect{Thread: m.subject("a message is lost"), Text: lostMessage(msg, reason)})
	if msg.Source != Mesh {
		return
	}
	text := "failed: the message was lost before its turn: " + reason + ". It was not acted on."
	if msg.IsFollowUp() {
		text = "failed: a job of this message's turn has reported, but the report could not be handled: " + reason +
			". The first answer stands."
	}
	id := m.queue(Effect{Kind: Reply, Channel: ByMesh, To: msg.From, Correlation: msg.Correlation, Trace: msg.Trace, Outcome: Failed, Text: text})
	m.line(Line{Kind: LineEdge, What: WordReport, Source: Mesh, From: m.Agent, To: msg.From, Request: msg.Correlation, Response: id, Outcome: Failed, Trace: msg.Trace})
}

// lostMessage returns the text that tells the operator that a message is lost.
func lostMessage(msg Message, reason string) string {
	sender := "from " + msg.From + " (" + string(msg.Source) + ")"
	if msg.IsFollowUp() {
		return "A job that I started has reported, but I could not handle the report, because I can no longer read the message of that turn: " +
			reason + ".\n\nThe message was " + sender + ", with the key " + msg.FollowsUp + ". I have answered the message, but not the report (" + msg.Key +
			"): ask me again if it still matters."
	}
	return "I can no longer read a message that I received: " + reason + ".\n\nIt was " + sender + ", of " + utc(msg.At) + ", with the key " + msg.Key +
		". I have not acted on it and will not: send it again if it still matters."
}

// Rendered reports that the damaged file of an effect was rendered again. Sum is the sum of the new
// file. Reason describes the damage of the old one.
type Rendered struct{ ID, Sum, Reason string }

// apply stores the sum of the new bytes in the row. If a copy may have left, only the same bytes
// may leave again.
func (e Rendered) apply(m *machine) {
	i, ok := m.effectIndex(e.ID)
	if !ok || m.Outbox[i].MayHaveLeft() && m.Outbox[i].Sum != e.Sum {
		return
	}
	m.Outbox[i].Sum = e.Sum
	row := m.Outbox[i]
	m.line(Line{Kind: LineEffect, ID: e.ID, What: WordRenderedAgain, Reason: e.Reason, TurnID: row.TurnID, Effect: &row})
}

// Redacted implements [Redactable].
func (e Rendered) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

// MayHaveLeft reports whether a copy of the effect may have reached its server, so that no other
// bytes may follow it under the same id.
func (e Effect) MayHaveLeft() bool { return e.Copies > 0 || e.Unknown || e.Sending }

// AskAgain reports that the mail of a challenge was damaged before it left. Only that mail had the
// token.
type AskAgain struct{ ID, Reason string }

// apply closes the challenge, so that the operator is asked again with another token.
func (e AskAgain) apply(m *machine) {
	i, ok := m.effectIndex(e.ID)
	if !ok || m.Outbox[i].Kind != Challenge || m.Outbox[i].MayHaveLeft() {
		return
	}
	m.endEffect(i, WordWithdrawn, e.Reason)
	for _, c := range m.Challenges {
		if c.ID != e.ID {
			continue
		}
		l := Line{Kind: LineChallenge, What: WordSpoiled, ID: c.ID, Key: c.Key, Reason: e.Reason}
		m.line(l)
		m.applyChallengeLine(l)
		return
	}
}

// Redacted implements [Redactable].
func (e AskAgain) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}
