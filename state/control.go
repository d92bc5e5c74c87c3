package state

// The controls. The operator gives one by hand, or by a mail whose new text is only the control
// (docs/design.md, "Stop and controls").
const (
	ControlStop   = "STOP"
	ControlHalt   = "HALT"
	ControlGo     = "GO"
	ControlStatus = "STATUS"
)

// Controlled reports a mail of the operator whose new text is only STOP, HALT, GO or STATUS.
type Controlled struct {
	Arrived
	Control string
}

// apply carries out the control and answers it. A control is not a message: it gets no turn and
// wakes nothing. But it counts as hearing the operator.
func (e Controlled) apply(m *machine) {
	msg := e.Message
	m.acknowledgeLater(e.UID, e.MeshID)
	if e.known(m) {
		return
	}
	m.noteSeen(msg.Key)
	m.noteSeen(e.Digest)
	m.LastOperator = m.now
	m.operatorHeard()
	msg.At = m.now
	m.noteMail(msg, e.Thread.Subject)
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

// Stopped reports `stop`, or a mail that says STOP.
type Stopped struct{ Reason string }

// apply marks the turn. The turn's owner sees the mark, ends the agent and delivers the results so
// far.
func (e Stopped) apply(m *machine) {
	if !m.Turn.stoppable() || m.Turn.Stop != "" {
		return
	}
	m.Turn.Stop = "stop"
	m.operatorHeard()
	m.turnLine("stop", e.Reason)
}

// Redacted implements [Redactable].
func (e Stopped) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}
