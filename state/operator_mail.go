package state

import (
	"time"

	"agentstateloop/internal/plain"
)

// Waking is the mail to the operator that the agent is awake, as long as it was not made.
type Waking struct {
	AckWaits WaitingAck `json:"ack_waits,omitzero"`
	Unmailed bool       `json:"unmailed,omitempty"` // the operator got no mail about this waking and did not write
}

func (w *Waking) clampTimes(c clamp, p Policy) { c.deadline(&w.AckWaits.Until, p.AckAfter) }

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

// mailStillWorking makes the one mail about a long turn (docs/protocol.md, "Our mail").
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

// WaitingAck is an ack that is made at its time, unless the answer comes first (docs/design.md,
// "Phases").
type WaitingAck struct {
	Until  time.Time `json:"until"`
	Key    string    `json:"key,omitempty"` // of the message that woke the agent, or ""
	Thread Thread    `json:"thread,omitzero"`
	Text   string    `json:"text,omitempty"` // who nudged, and why
}

// waits reports whether an ack waits.
func (w WaitingAck) waits() bool { return !w.Until.IsZero() }

// The reasons why an ack is not made.
const (
	ackAnswered = "its answer is ready"
	ackWorking  = `"still working" is mailed instead`
)

// letAckWait keeps an ack until its time. When silence ends this waking, the operator may not have
// received any mail about it.
func (m *machine) letAckWait(w WaitingAck) {
	w.Until = m.now.Add(m.policy.AckAfter)
	m.AckWaits = w
	m.Unmailed = !m.isOperators(w.Key)
	m.line(Line{Kind: LineAck, What: WordWaits, Key: w.Key, Ack: &w})
}

// isOperators reports whether the message with this key is in the inbox and is the operator's.
func (r *Received) isOperators(key string) bool {
	msg := r.message(key)
	return msg != nil && msg.Operator
}

// AckDue reports whether the waiting ack is due.
func (s State) AckDue(now time.Time) bool {
	at, waits := s.nextAck()
	return waits && !now.Before(at)
}

// nextAck returns when the waiting ack is due. HALT holds it.
func (s State) nextAck() (at time.Time, waits bool) {
	return s.AckWaits.Until, s.AckWaits.waits() && !s.Halted()
}

// settleAck makes the waiting ack when it is due, and forgets it when its message has left the
// inbox.
func (m *machine) settleAck() {
	w := m.AckWaits
	switch {
	case !w.waits():
	case w.Key != "" && m.message(w.Key) == nil:
		m.withdrawAck(m.whyGone(w.Key))
	case !m.AckDue(m.now):
	case !m.mayAck():
		m.withdrawAck("it is switched off, or six were queued within the hour")
	default:
		m.AckWaits = WaitingAck{}
		m.makeAck(w)
	}
}

// whyGone returns why a message is not in the inbox any more.
func (m *machine) whyGone(key string) string {
	for _, l := range m.Lines {
		if l.Kind == LineTask && l.Ends(key) {
			return ackAnswered
		}
	}
	return "its message has left the inbox"
}

// withdrawAck forgets the waiting ack.
func (m *machine) withdrawAck(why string) {
	if m.AckWaits.waits() {
		m.line(Line{Kind: LineAck, What: WordNotNeeded, Key: m.AckWaits.Key, Reason: why})
		m.AckWaits = WaitingAck{}
	}
}

// answerInsteadOfAck withdraws the ack of a nudge, or of `transition`, when a turn has answered the
// operator. The ack of a message waits for the end of that message.
func (m *machine) answerInsteadOfAck(answered Message, reply *Effect) {
	if m.AckWaits.Key == "" && (answered.Operator || isMail(reply)) {
		m.withdrawAck(ackAnswered)
	}
	if isMail(reply) {
		m.Unmailed = false
	}
}

func isMail(reply *Effect) bool { return reply != nil && reply.Channel == ByMail }

// workingInsteadOfAck withdraws the waiting ack, because the operator gets a "still working" mail
// about its message.
func (m *machine) workingInsteadOfAck() {
	w := m.AckWaits
	if lease := m.collected(); w.Key == "" || w.Key == m.Turn.Key || containsKey(lease, w.Key) {
		m.withdrawAck(ackWorking)
	}
}

func containsKey(rows []Message, key string) bool {
	for _, msg := range rows {
		if msg.Key == key {
			return true
		}
	}
	return false
}

// answeredBefore reports whether the answer is ready before the ack that waited for it was sent.
func (m *machine) answeredBefore(i int) bool {
	switch row := m.Outbox[i]; {
	case m.policy.AckAfter <= 0:
		return false
	case row.Cause != "":
		return m.message(row.Cause) == nil
	}
	return m.answerAfter(i)
}

// applyAckLine lets an ack wait again, or forgets it.
func (m *machine) applyAckLine(l Line) {
	m.AckWaits = WaitingAck{}
	if l.What == WordWaits && l.Ack != nil {
		m.AckWaits, m.Unmailed = *l.Ack, !m.isOperators(l.Key)
	}
}

// owedFor is how long an answer that cannot be delivered keeps the agent awake (docs/design.md,
// "Timers").
const owedFor = time.Hour

// isAnswer reports whether the effect answers the operator: a turn's deliverable or
// the answer to a control, by mail.
func (e Effect) isAnswer() bool {
	return e.Channel == ByMail && (e.Kind == Reply || e.Kind == Answer)
}

// owedUntil returns until when silence does not count because an answer waits in the outbox: an
// hour after the last answer was ready. It returns the zero time if no answer waits. An answer that
// HALT holds back does not keep the agent awake.
func (s State) owedUntil() time.Time {
	var until time.Time
	for _, e := range s.Outbox {
		if e.isAnswer() && !s.Held(e) {
			until = latest(until, e.Created.Add(owedFor))
		}
	}
	return until
}

// answerPending reports whether an answer waits that was ready less than an hour ago.
func (m *machine) answerPending() bool { return m.now.Before(m.owedUntil()) }

// restartSilence restarts the count of silence when an answer has left or was given up. The count
// starts now or an hour after the answer was ready, whichever came first.
func (m *machine) restartSilence(e Effect) {
	if e.isAnswer() {
		m.LastDelivery = latest(m.LastDelivery, earlier(m.now, e.Created.Add(owedFor)))
	}
}

// updateOwing keeps the interval short even in IDLE while an answer is owed that could not be
// delivered at once.
func (m *machine) updateOwing() {
	owing := false
	for _, e := range m.Outbox {
		tried := e.Attempts > 0 || e.Denied
		owing = owing || e.isAnswer() && !m.Held(e) && tried && m.now.Before(e.Created.Add(owedFor))
	}
	if owing = owing && m.Phase == IDLE; owing != m.Owing {
		m.Owing = owing
		m.schedule()
	}
}

// pause returns how long a row waits after a failure. An owed answer is tried each minute for an
// hour, and then at growing pauses. A copy that may have arrived is not repeated so soon.
func (m *machine) pause(row Effect, e SendFailed) time.Duration {
	switch {
	case e.RetryAfter > 0:
		return min(e.RetryAfter, maxBackoff)
	case e.Unknown:
		return backoff(row.Copies)
	case row.isAnswer():
		late := m.now.Sub(row.Created) - owedFor
		return min(max(late, firstBackoff), backoff(row.Attempts))
	}
	return backoff(row.Attempts)
}

// expedite shortens the pauses of the rows before an owed answer, because order holds.
func (m *machine) expedite() {
	soon := m.now.Add(firstBackoff)
	for i, answer := range m.Outbox {
		if !answer.isAnswer() || m.Held(answer) || !m.now.Before(answer.Created.Add(owedFor)) {
			continue
		}
		for j := range i {
			row := &m.Outbox[j]
			if row.lane() == answer.lane() && !row.Unknown {
				row.NotBefore = earlier(row.NotBefore, soon)
			}
		}
	}
}

// An operator asks first: did my mail arrive, and was it answered? The two records below answer
// that. They change only in steps that record the mail or the turn itself.

// Exchange is the newest mail of the operator, and the newest answer to them.
type Exchange struct {
	LastMail   LastMail   `json:"last_mail,omitzero"`
	LastAnswer LastAnswer `json:"last_answer,omitzero"`
}

func (x *Exchange) clampTimes(c clamp) {
	c.past(&x.LastMail.At, &x.LastAnswer.At, &x.LastAnswer.Sent)
}

// maxLastSubject is how many characters LastMail holds of a subject.
const maxLastSubject = 120

// LastMail is the newest mail of the operator, a message or a control. A state rebuilt from the
// history does not know its subject.
type LastMail struct {
	Key     string    `json:"key,omitempty"`
	From    string    `json:"from,omitempty"`
	Subject string    `json:"subject,omitempty"` // the beginning, on one line
	At      time.Time `json:"at,omitzero"`       // as the server gives it
}

// LastAnswer is the newest answer of a turn to the operator: the mail to them, or the text that
// `tell` waited for.
type LastAnswer struct {
	Key     string        `json:"key,omitempty"` // of the message
	Source  Source        `json:"source,omitempty"`
	TurnID  string        `json:"turn_id,omitempty"`
	Outcome Outcome       `json:"status,omitempty"`
	At      time.Time     `json:"at,omitzero"`    // when the turn ended
	Took    time.Duration `json:"took,omitempty"` // since the message came or was due; 0 if unknown
	Cost    Micros        `json:"micros,omitempty"`
	Refused string        `json:"not_permitted,omitempty"` // the actions that the agent was not permitted, in words

	// Reply is the effect that carries the answer, or "" for `tell`. Sent is when the server took
	// the effect. Ended is how the effect ended otherwise, as its history line says.
	Reply string    `json:"reply,omitempty"`
	Sent  time.Time `json:"sent,omitzero"`
	Ended Word      `json:"ended,omitempty"`
}

// noteMail remembers a mail of the operator. It ignores other messages.
func (x *Exchange) noteMail(msg Message, subject string) {
	if msg.Source != Mail {
		return
	}
	subject = plain.Shorten(plain.Line(plain.Cut(subject, 4*maxLastSubject)), maxLastSubject)
	x.LastMail = LastMail{Key: msg.Key, From: msg.From, Subject: subject, At: msg.At}
}

// noteAnswer remembers the answer to a message, as its edge records it, if the operator gets it. An
// answer to another agent does not count.
func (x *Exchange) noteAnswer(msg Message, edge Line, at time.Time) {
	if msg.Principal() != OperatorPrincipal && msg.Cause() != CauseEvent {
		return
	}
	a := LastAnswer{Key: msg.Key, Source: msg.Source, TurnID: edge.TurnID, Outcome: edge.Outcome, At: at, Cost: msg.Cost, Refused: plain.Shorten(edge.Reason, maxLastSubject)}
	if edge.Response != edge.TurnID {
		a.Reply = edge.Response
	}
	if !msg.Early {
		a.Took = max(0, at.Sub(msg.Observed.Add(msg.Span)))
	}
	x.LastAnswer = a
}

// noteLateCost adds the later spending of the last answer's agent.
func (x *Exchange) noteLateCost(l Line) {
	if l.TurnID != "" && l.TurnID == x.LastAnswer.TurnID {
		x.LastAnswer.Cost = x.LastAnswer.Cost.plus(l.Spending.Cost)
	}
}

// noteReplyEnded remembers how the effect with the last answer ended.
func (x *Exchange) noteReplyEnded(id string, what Word, at time.Time) {
	a := &x.LastAnswer
	switch {
	case id == "" || a.Reply != id:
	case what == WordSent:
		a.Sent, a.Ended = at, ""
	default:
		a.Ended = what
	}
}
