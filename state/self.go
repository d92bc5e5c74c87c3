package state

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"agentstateloop/internal/order"
)

// The kinds of rows by which an agent wakes itself (docs/design.md, "It drives itself"). Their
// source is Self.
const (
	KindSleep    = "sleep"    // the agent sleeps, with a reason to wake
	KindRest     = "rest"     // the agent rests after an answer, because of [api] rest
	KindReminder = "reminder" // stays even if messages come meanwhile
)

// MaxReminder bounds how far ahead a reminder may be. MaxSelfRows bounds how many rows of the agent
// itself wait at once.
const (
	MaxReminder = 366 * 24 * time.Hour
	MaxSelfRows = 50
)

// maxSpan returns how far ahead a row of this kind may be.
func maxSpan(kind string) time.Duration {
	if kind == KindReminder {
		return MaxReminder
	}
	return MaxSleep
}

// SelfStreak counts the turns that the agent caused itself since its operator was last heard. Of
// them, Peers were in conversations with other agents. Told is set once the operator knows that
// rows wait.
type SelfStreak struct {
	Turns int  `json:"turns,omitempty"`
	Peers int  `json:"peers,omitempty"`
	Told  bool `json:"told,omitempty"`
}

// full reports whether the streak has no room for the turn of msg. Conversations with other agents
// may use half of it at most, so that they never hold up the operator's wakeups.
func (k SelfStreak) full(msg Message, p Policy) bool {
	return k.Turns >= p.SelfTurns || !msg.Operator && k.Peers >= (p.SelfTurns+1)/2
}

// used reports whether the streak is used up for every conversation.
func (k SelfStreak) used(p Policy) bool { return k.Turns >= p.SelfTurns }

// plural returns a count and its noun: "1 turn", "2 turns".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// count counts the turn of msg.
func (k *SelfStreak) count(msg Message) {
	k.Turns++
	if !msg.Operator {
		k.Peers++
	}
}

// operatorHeard begins a new streak. An operator who has just written knows that the agent is
// awake.
func (m *machine) operatorHeard() { m.Streak, m.Unmailed = SelfStreak{}, false }

// Planned reports that the agent plans to wake itself, at At or after For. TurnID and Epoch name
// the turn that asks for it. Without them the operator, From, asks at the terminal.
type Planned struct {
	TurnID  string
	Epoch   uint64
	From    string
	Kind    string
	Key     string
	At      time.Time
	For     time.Duration
	Title   string  // the beginning of its text, on one line
	Thread  *Thread // where the answer goes; nil means a new thread
	Payload string
	Sum     string // of the payload
}

// apply adds the row. The row continues the conversation of the turn that made it, with no more
// rights than that turn. A sleep replaces the sleep before it. apply adds no row above MaxSelfRows,
// half of which other agents' turns may use.
func (e Planned) apply(m *machine) {
	if m.seen(e.Key) || m.message(e.Key) != nil {
		return
	}
	row := Message{Key: e.Key, Source: Self, Kind: e.Kind, From: e.From, Operator: true}
	if e.TurnID == "" {
		m.operatorHeard()
	} else {
		if m.notUnderWay(e.TurnID, e.Epoch, "planned") {
			return
		}
		cause, _ := m.TurnMessage()
		row.From, row.Operator, row.Proof = cause.From, cause.Operator, cause.Proof
		if row.Operator {
			row.From = m.Agent
		}
		row.MadeBy, row.Trace = e.TurnID, m.turnTrace()
		row.ByClock = cause.Cause() == CauseTask
	}
	row.Trace = cmp.Or(row.Trace, m.mintTrace(row.Key))
	m.trace = row.Trace
	if e.Kind != KindReminder {
		m.replaceSleeps(row.Principal())
	}
	if !m.RoomForSelf(row.Operator) {
		m.line(Line{Kind: LineNote, Source: Self, From: row.From, What: Word(e.Kind), TurnID: e.TurnID, Reason: fmt.Sprintf("%d wakeups are already waiting", MaxSelfRows)})
		return
	}
	at := e.At.UTC()
	if e.For > 0 {
		at = m.now.Add(min(e.For, maxSpan(e.Kind)))
	}
	row.Span = min(max(0, at.Sub(m.now)), maxSpan(e.Kind))
	row.NextRetryAt = m.now.Add(row.Span)
	if e.Kind != KindReminder {
		m.SleepUntil, m.SleepFor = row.NextRetryAt, row.Span
	}
	m.noteSeen(e.Key)
	m.Arrivals++
	row.Seq, row.At, row.Observed = m.Arrivals, m.now, m.now
	row.Status, row.Reason, row.Title = Deferred, e.Kind, e.Title
	row.Payload, row.Sum = e.Payload, e.Sum
	if row.Thread = e.Thread; e.Thread != nil {
		row.ThreadID = e.Thread.ID
	}
	m.Inbox = append(m.Inbox, row)
	kept := row
	m.line(Line{Kind: LineMessage, Key: row.Key, Source: Self, From: row.From, TurnID: e.TurnID, Message: &kept})
	if e.TurnID != "" {
		row.From = m.Agent // the sender; the row itself names its principal
	}
	m.enqueued(row)
}

// Redacted implements [Redactable].
func (e Planned) Redacted(redact func(string) string) Event {
	e.Title = redact(e.Title)
	return e
}

// RoomForSelf reports whether one more row of the agent itself may wait, in the operator's
// conversation or in another agent's. Rows for other agents may use half of the room at most.
func (r Received) RoomForSelf(operator bool) bool {
	all, peers := 0, 0
	for _, msg := range r.Inbox {
		if msg.Source == Self {
			all++
			if !msg.Operator {
				peers++
			}
		}
	}
	return all < MaxSelfRows && (operator || peers < MaxSelfRows/2)
}

// isSleep reports whether the row is a sleep or a rest that waits for its time.
func (msg Message) isSleep() bool {
	return msg.Source == Self && msg.Kind != KindReminder && msg.Status == Deferred && msg.TurnID == ""
}

// Sleeps reports whether a sleep with a reason waits for its time in a conversation.
func (r Received) Sleeps(who Principal) bool {
	return slices.ContainsFunc(r.Inbox, func(msg Message) bool {
		return msg.isSleep() && msg.Kind == KindSleep && msg.Principal() == who
	})
}

// replaceSleeps ends the sleep of a conversation, because another sleep begins.
func (m *machine) replaceSleeps(who Principal) {
	for _, msg := range slices.Clone(m.Inbox) {
		if msg.isSleep() && msg.Principal() == who {
			m.skip(msg, "replaced by a later one")
		}
	}
}

// forgetSleeps ends every sleep, because the memory of its reason is gone.
func (m *machine) forgetSleeps(why string) {
	m.SleepUntil = time.Time{}
	for _, msg := range slices.Clone(m.Inbox) {
		if msg.isSleep() {
			m.skip(msg, why)
		}
	}
}

// sleepEnds clears SleepUntil if it is the time of this row. Another conversation may sleep on.
func (w *Work) sleepEnds(msg Message) {
	if msg.isSleep() && w.SleepUntil.Equal(msg.NextRetryAt) {
		w.SleepUntil = time.Time{}
	}
}

// skip ends a row without a turn.
func (m *machine) skip(msg Message, why string) {
	m.sleepEnds(msg)
	m.line(Line{Kind: LineEnded, Key: msg.Key, Source: msg.Source, From: msg.From, What: Word(Skipped), Reason: why})
	m.removeMessage(msg.Key)
}

// endSleeps ends every sleep because something came: a message of the principal who or, if who is
// "", a nudge. It skips a sleep in the conversation of the message, because the turn of the message
// replaces its turn. Every other sleep has its turn now, because no other turn would do its work.
// endSleeps returns the title of the skipped sleep.
func (m *machine) endSleeps(who Principal, what string) (ended string) {
	m.SleepUntil = time.Time{}
	for _, msg := range slices.Clone(m.Inbox) {
		switch {
		case !msg.isSleep():
		case msg.Principal() == who:
			ended = msg.Title
			m.skip(msg, "ended by "+what)
		case m.now.Before(msg.NextRetryAt):
			row := m.message(msg.Key)
			row.wakeAt(m.now)
			m.line(Line{Kind: LineSleep, What: WordOver, Key: msg.Key, Source: Self, Reason: what})
		}
	}
	return ended
}

// wakeAt lets a row of the agent itself have its turn at t, before its own time.
func (msg *Message) wakeAt(t time.Time) {
	msg.NextRetryAt, msg.Span, msg.Early = t, 0, true
}

// retryWakeup lets a row of the agent itself have its turn now, because the operator asks for it.
// This counts as hearing the operator.
func (m *machine) retryWakeup(row *Message, origin string) {
	if m.operatorHeard(); m.now.Before(row.NextRetryAt) {
		m.sleepEnds(*row)
		row.wakeAt(m.now)
	}
	m.line(Line{Kind: LineSleep, What: WordRetried, Key: row.Key, Source: Self, Reason: origin})
}

// applySleepLine applies a line about rows of the agent itself.
func (m *machine) applySleepLine(l Line) {
	switch l.What {
	case WordOver, WordRetried:
		if l.What == WordRetried {
			m.operatorHeard()
		}
		if row := m.message(l.Key); row != nil && l.At.Before(row.NextRetryAt) {
			row.wakeAt(l.At)
		}
	case WordHeld:
		m.Streak.Told = true
	}
}

// applyTurnLine counts the turn of a row of the agent itself. A stop by hand counts as hearing the
// operator.
func (m *machine) applyTurnLine(l Line) {
	if l.What == WordStop {
		m.operatorHeard()
	}
	if row := m.message(l.Key); l.What == WordDispatched && row != nil && row.Source == Self && row.TurnID == "" {
		m.Streak.count(*row)
	}
}

// noteDeliverable records the file with a turn's deliverable in the rows that the turn made. It
// ignores an attempt that began before a reset, because its memory has ended.
func (m *machine) noteDeliverable(turnID string, epoch uint64, file string) {
	if epoch <= m.Reset.Epoch {
		return
	}
	for i := range m.Inbox {
		if msg := &m.Inbox[i]; msg.Source == Self && msg.MadeBy == turnID && turnID != "" {
			msg.Said = file
		}
	}
}

// SelfHeld returns the reason that holds back a row of the agent itself once its time has come, or
// "". A turn that has begun is not held back by its source.
func (s State) SelfHeld(msg Message, p Policy, now time.Time) string {
	if msg.Source != Self || msg.TurnID != "" {
		return ""
	}
	tier := s.Tier(p, now)
	switch {
	case s.Halted():
		return HaltedReason
	case p.SelfTurns <= 0:
		return "[turn] self_turns is 0"
	case tier != TierNormal:
		return "money is short (" + string(tier) + ")"
	case s.Streak.used(p):
		return fmt.Sprintf("it has run %s of its own since its operator last wrote, and [turn] self_turns is %d", plural(s.Streak.Turns, "turn"), p.SelfTurns)
	case s.Streak.full(msg, p):
		return fmt.Sprintf("it has run %s of its own in conversations with others since its operator last wrote; they may use half of [turn] self_turns, which is %d",
			plural(s.Streak.Peers, "turn"), p.SelfTurns)
	}
	return ""
}

// tellSelfHeld tells the operator, once in a streak, that rows of the agent itself wait to hear
// from them. It does not tell them if only the share of other agents is used up.
func (m *machine) tellSelfHeld() {
	if m.Streak.Told || m.policy.SelfTurns <= 0 || m.Halted() || !m.Streak.used(m.policy) {
		return
	}
	held := 0
	for _, msg := range m.Inbox {
		if msg.Source == Self && msg.TurnID == "" && msg.isDue(m.now) && m.Streak.full(msg, m.policy) {
			held++
		}
	}
	if held == 0 {
		return
	}
	m.Streak.Told = true
	m.line(Line{Kind: LineSleep, What: WordHeld, Count: held})
	m.notice(fmt.Sprintf("I have woken myself %s since I last heard from you, and [turn] self_turns allows %d. Waiting wakeups: %d. Any message from you lets me continue; `agentstateloop inbox list` shows them, and `agentstateloop inbox drop` removes one.",
		plural(m.Streak.Turns, "time"), m.policy.SelfTurns, held))
}

// beginSelfTurn counts the turn of a row of the agent itself, which begins now, and ends the sleep.
func (w *Work) beginSelfTurn(msg Message) {
	w.Streak.count(msg)
	w.Asleep = false
	w.sleepEnds(msg)
}

// nothingToDo reports whether the inbox is empty, except for rows that the agent planned for later
// and held rows.
func (m *machine) nothingToDo() bool {
	return !slices.ContainsFunc(m.Inbox, func(msg Message) bool { return !msg.Held && (msg.Source != Self || m.runnable(msg, m.policy, m.now)) })
}

// maxWait returns how far ahead the time of a deferred row may be. A row that the agent planned
// waits at most its original span.
func (msg Message) maxWait() time.Duration {
	if msg.Source == Self && msg.TurnID == "" {
		return msg.Span
	}
	return maxDeferral
}

// Planned returns the rows of the agent itself that wait for their time or for their turn, the next
// first.
func (r Received) Planned() []Message {
	var rows []Message
	for _, msg := range r.Inbox {
		if msg.Source == Self && msg.Status == Deferred {
			rows = append(rows, msg)
		}
	}
	order.Stable(rows, func(a, b Message) int { return a.NextRetryAt.Compare(b.NextRetryAt) })
	return rows
}
