package state

import "slices"

// The controls: what the operator says by mail, alone in the new text, or by
// hand (DESIGN 6).
const (
	ControlStop   = "STOP"
	ControlHalt   = "HALT"
	ControlGo     = "GO"
	ControlStatus = "STATUS"
)

// Controlled: a mail of the operator that says STOP, HALT, GO or STATUS and
// nothing else. It is skipped as a message, and answered.
type Controlled struct {
	Arrived
	Control string
}

// apply carries out a control and answers it. It is no message: it gets
// no turn, wakes nothing and takes PREP nowhere; but the operator was heard.
func (e Controlled) apply(m *machine) {
	msg := e.Message
	m.owe(e.UID, e.MeshID)
	if m.seen(msg.Key) || e.Digest != "" && m.seen(e.Digest) {
		return
	}
	m.remember(msg.Key)
	m.remember(e.Digest)
	m.LastOperator = m.now
	m.line(Line{Kind: LineControl, What: e.Control, Key: msg.Key, Source: msg.Source, From: msg.From, Digest: e.Digest})
	switch e.Control {
	case ControlStop:
		Stopped{Reason: "by mail"}.apply(m)
	case ControlHalt:
		Switched{On: true, Reason: "by mail"}.apply(m)
	case ControlGo:
		Switched{On: false, Reason: "by mail"}.apply(m)
	}
	m.queue(Effect{Kind: Answer, Channel: ByMail, To: msg.From, Thread: e.Thread, Text: e.Control})
}

// Stopped: `stop`, or a mail that says STOP.
type Stopped struct{ Reason string }

// apply marks the turn; whoever owns it sees the mark, ends the agent and
// delivers what there is.
func (e Stopped) apply(m *machine) {
	if m.Turn.Status == HeadIdle || m.Turn.Stop != "" {
		return
	}
	m.Turn.Stop = "stop"
	m.turnLine("stop", e.Reason)
}

// Redacted implements [Redactable].
func (e Stopped) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

// Resetted: `reset`: the agent's memory begins anew, with a note.
type Resetted struct{ Note, Origin string }

// apply begins the agent's memory anew. What is queued stays queued, and is
// told as being from before.
func (e Resetted) apply(m *machine) {
	m.Session = Session{}
	m.Reset = Reset{At: m.now, Note: e.Note, Origin: e.Origin, Arrivals: m.Arrivals, Epoch: m.Epoch}
	m.Compacted = Summary{}
	m.line(Line{Kind: LineReset, From: e.Origin, Reason: e.Note})
}

// Redacted implements [Redactable].
func (e Resetted) Redacted(redact func(string) string) Event {
	e.Note = redact(e.Note)
	return e
}

// lineRetried marks the history line of a message that was queued again.
const lineRetried = "retried"

// Retried: `inbox retry`: a message that was given up, or is held back, is
// queued again, at the end.
type Retried struct{ Message Message }

// apply queues a message again, at the end, as one that had no turn yet: its
// former turn, if there was one, has had its deliverable.
func (e Retried) apply(m *machine) {
	if i, there := m.message(e.Message.Key); there {
		if m.Inbox[i].Status == Deferred {
			m.Inbox[i].Status = Queued
			m.Inbox[i].NextRetryAt = m.now
		}
		return
	}
	msg := e.Message
	m.remember(msg.Key)
	m.Arrivals++
	msg.Seq, msg.Observed, msg.At = m.Arrivals, m.now, earlier(msg.At.UTC(), m.now)
	msg.Status, msg.TurnID, msg.Epoch, msg.Attempts, msg.Cost, msg.Note = Queued, "", 0, 0, 0, ""
	m.Inbox = append(m.Inbox, msg)
	m.Asleep = false
	m.line(Line{Kind: LineMessage, What: lineRetried, Key: msg.Key, Source: msg.Source, From: msg.From, Message: &msg})
}

// Dropped: `inbox drop`: a message that waits is to have no turn.
type Dropped struct{ Key, Reason string }

// apply takes a waiting message out of the inbox. The message of the active
// turn is not waiting: that is for `stop`.
func (e Dropped) apply(m *machine) {
	i, there := m.message(e.Key)
	if !there || m.Inbox[i].Status == Pending || m.Inbox[i].Status == Processing {
		return
	}
	m.line(Line{Kind: LineEnded, Key: e.Key, Source: m.Inbox[i].Source, What: string(Skipped), Reason: e.Reason})
	m.Inbox = slices.Delete(m.Inbox, i, i+1)
}

// Redacted implements [Redactable].
func (e Dropped) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}
