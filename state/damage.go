package state

import "slices"

// Files that are not what their rows say (docs/design.md, "Damaged files"). The
// machine decides what becomes of the row. Package cycle finds the damage, and makes
// the file again where it can.

// maxRefetches is how many polls in a row may find that a damaged mail cannot be had
// again. Then it is given up.
const maxRefetches = 3

// What a damage line records.
const (
	lineDamaged  = "damaged"
	lineMended   = "mended"
	lineNotThere = "not there"
	lineRendered = "rendered again"
)

// Damaged reports that the payload of a message that waits for its turn is not what
// was kept. Reason says what is wrong with it, and names the file.
type Damaged struct{ Key, Reason string }

// apply holds a mail until it was fetched again. Any other message cannot be had
// again, and is given up.
func (e Damaged) apply(m *machine) {
	msg := m.message(e.Key)
	switch {
	case msg == nil || msg.Damaged || msg.givenUp():
		return
	case (m.Turn.Key == e.Key || slices.Contains(m.Turn.With, e.Key)) && (m.Turn.Status == HeadDispatched || m.Turn.Status == HeadRunning):
		return // its attempt has read it, or says that it cannot
	case msg.Source != Mail || !m.policy.HasMail:
		m.giveUpDamaged(*msg, e.Reason)
		return
	}
	m.hold(msg, e.Reason)
	m.line(Line{Kind: LineDamage, What: lineDamaged, Key: e.Key, Source: msg.Source, From: msg.From, Reason: e.Reason})
}

// Redacted implements [Redactable].
func (e Damaged) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

// hold lets a message wait whose payload is damaged.
func (m *machine) hold(msg *Message, why string) {
	m.leaveLease(msg)
	msg.Damaged, msg.Reason = true, why
	if msg.Status == Queued {
		msg.Status = Deferred
	}
}

// mended lets a message have its turn whose payload is what it was when it came.
func (msg *Message) mended() {
	msg.Damaged, msg.Refetches, msg.Reason = false, 0, ""
	if msg.Status == Deferred {
		msg.Status = Queued
	}
}

// applyDamageLine holds a message again, or lets it go.
func (m *machine) applyDamageLine(l Line) {
	msg := m.message(l.Key)
	switch {
	case msg == nil:
	case l.What == lineDamaged && !msg.Damaged:
		m.hold(msg, l.Reason)
	case l.What == lineMended && msg.Damaged:
		msg.mended()
	}
}

// givenUp reports whether a damaged payload was not had again, so that the turn that
// waits for other agents must do without it.
func (msg Message) givenUp() bool { return msg.Refetches >= maxRefetches }

// Mended reports that the payload of a message is what it was when it came.
type Mended struct{ Key string }

// apply lets the message have its turn.
func (e Mended) apply(m *machine) {
	msg := m.message(e.Key)
	if msg == nil || !msg.Damaged {
		return
	}
	msg.mended()
	m.line(Line{Kind: LineDamage, What: lineMended, Key: e.Key, Source: msg.Source, From: msg.From})
}

// NotMended reports that the mailbox was asked for a damaged mail and did not have
// it, or not with the same bytes.
type NotMended struct{ Key, Reason string }

// apply lets the mail wait for the next poll, because a server may be wrong once. At
// the third time in a row it is given up.
func (e NotMended) apply(m *machine) {
	msg := m.message(e.Key)
	if msg == nil || !msg.Damaged {
		return
	}
	msg.Refetches++
	if !msg.givenUp() {
		m.line(Line{Kind: LineDamage, What: lineNotThere, Key: e.Key, Source: msg.Source, From: msg.From, Reason: e.Reason})
		return
	}
	m.giveUpDamaged(*msg, msg.Reason+"; "+e.Reason)
}

// Redacted implements [Redactable].
func (e NotMended) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

// giveUpDamaged ends a message that cannot be had again, and tells the operator, and
// the agent that sent it. The message of a suspended turn is not ended here: the
// turn goes on, and fails with what is wrong.
func (m *machine) giveUpDamaged(msg Message, reason string) {
	if m.Turn.Status != HeadIdle && m.Turn.Key == msg.Key {
		row := m.message(msg.Key)
		row.Damaged, row.Refetches = false, maxRefetches
		return
	}
	m.line(Line{Kind: LineEnded, Key: msg.Key, Source: msg.Source, From: msg.From, What: string(Errored), Reason: reason})
	m.removeMessage(msg.Key)
	m.tellOperator(Effect{Thread: m.subject("a message is lost"), Text: lostMessage(msg, reason)})
	if msg.Source != Mesh {
		return
	}
	text := "failed: the message was lost before it had its turn: " + reason + ". Nothing of it was done."
	if msg.IsFollowUp() {
		text = "failed: what the turn of this message had started has reported, and nothing came of the report: " + reason +
			". The first answer stands."
	}
	id := m.queue(Effect{Kind: Reply, Channel: ByMesh, To: msg.From, Correlation: msg.Correlation, Trace: msg.Trace, Outcome: Failed, Text: text})
	m.line(Line{Kind: LineEdge, What: edgeReport, Source: Mesh, From: m.Agent, To: msg.From, Request: msg.Correlation, Response: id, Outcome: Failed, Trace: msg.Trace})
}

// lostMessage tells the operator that a message cannot be had again.
func lostMessage(msg Message, reason string) string {
	sender := "from " + msg.From + " (" + string(msg.Source) + ")"
	if msg.IsFollowUp() {
		return "What a turn of mine had started has reported, and nothing came of the report, because I cannot read the message of that turn any more: " +
			reason + ".\n\nThe message was " + sender + ", with the key " + msg.FollowsUp + ". It had its turn and its answer, and the report (" + msg.Key +
			") will have none: ask me again if it still matters."
	}
	return "A message came in, and I cannot read it any more: " + reason + ".\n\nIt was " + sender + ", of " + utc(msg.At) + ", with the key " + msg.Key +
		". Nothing of it was done, and nothing will be: send it again if it still matters."
}

// Rendered reports that the file of an effect was damaged, and was made again from
// what it was rendered from. Sum is that of the new file, Reason what was wrong with
// the old one.
type Rendered struct{ ID, Sum, Reason string }

// apply lets the row name the new bytes. If a copy may have left, only the same
// bytes may leave again.
func (e Rendered) apply(m *machine) {
	i, ok := m.effectIndex(e.ID)
	if !ok || m.Outbox[i].MayHaveLeft() && m.Outbox[i].Sum != e.Sum {
		return
	}
	m.Outbox[i].Sum = e.Sum
	row := m.Outbox[i]
	m.line(Line{Kind: LineEffect, ID: e.ID, What: lineRendered, Reason: e.Reason, TurnID: row.TurnID, Effect: &row})
}

// Redacted implements [Redactable].
func (e Rendered) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

// MayHaveLeft reports whether a copy of the effect may have reached its server, so
// that no other bytes may follow it under the same id.
func (e Effect) MayHaveLeft() bool { return e.Copies > 0 || e.Unknown || e.Sending }

// AskAgain reports that the mail that asks about an item in quarantine was damaged
// before it left. Only that mail had the token.
type AskAgain struct{ ID, Reason string }

// apply closes the challenge and lets the operator be asked again, with another
// token.
func (e AskAgain) apply(m *machine) {
	i, ok := m.effectIndex(e.ID)
	if !ok || m.Outbox[i].Kind != Challenge || m.Outbox[i].MayHaveLeft() {
		return
	}
	m.endEffect(i, withdrawn, e.Reason)
	for _, c := range m.Challenges {
		if c.ID != e.ID {
			continue
		}
		l := Line{Kind: LineChallenge, What: challengeSpoiled, ID: c.ID, Key: c.Key, Reason: e.Reason}
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
