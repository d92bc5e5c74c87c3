package state

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// The kinds of rows with which an agent wakes itself (docs/design.md, "It drives
// itself"). Their source is Self.
const (
	KindSleep    = "sleep"    // the agent sleeps, and has said why it wakes
	KindRest     = "rest"     // it rests after an answer, because [api] rest says so
	KindReminder = "reminder" // stays whatever comes meanwhile
)

// MaxReminder bounds how far ahead a reminder may be, and MaxSelfRows how many rows of
// the agent itself wait at once.
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

// SelfStreak counts the turns that the agent caused itself since its operator was
// last heard. Of them, Peers were in conversations with other agents. Told is set
// once the operator knows that rows wait.
type SelfStreak struct {
	Turns int  `json:"turns,omitempty"`
	Peers int  `json:"peers,omitempty"`
	Told  bool `json:"told,omitempty"`
}

// full reports whether the streak has no room for the turn of msg. Conversations
// with other agents use half of it at most, so that they never keep the operator's
// wakeups waiting.
func (k SelfStreak) full(msg Message, p Policy) bool {
	return k.Turns >= p.SelfTurns || !msg.Operator && k.Peers >= (p.SelfTurns+1)/2
}

// used reports whether nothing of the streak is left, for any conversation.
func (k SelfStreak) used(p Policy) bool { return k.Turns >= p.SelfTurns }

// times returns a number of something: "1 turn", "2 turns".
func times(n int, noun string) string {
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

// operatorHeard begins a new streak. Who has said something knows that the agent is awake.
func (m *machine) operatorHeard() { m.Streak, m.Unmailed = SelfStreak{}, false }

// Planned reports that the agent is to wake itself, at At or after For. TurnID and
// Epoch are of the turn that asks for it, and without them it is the operator, From,
// at the terminal.
type Planned struct {
	TurnID  string
	Epoch   uint64
	From    string
	Kind    string
	Key     string
	At      time.Time
	For     time.Duration
	Title   string  // the beginning of its words, on one line
	Thread  *Thread // that the answer goes to; nil: a new one
	Payload string
	Sum     string // of the payload
}

// apply adds the row. It continues the conversation of the turn that made it, with
// no more rights than that turn. A sleep replaces the one before it. Above
// MaxSelfRows, of which other agents' turns use half, nothing is added.
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
		m.line(Line{Kind: LineNote, Source: Self, From: row.From, What: e.Kind, TurnID: e.TurnID, Reason: fmt.Sprintf("%d rows wait already", MaxSelfRows)})
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
		row.From = m.Agent // who sends it; the row itself has whom it answers
	}
	m.enqueued(row)
}

// Redacted implements [Redactable].
func (e Planned) Redacted(redact func(string) string) Event {
	e.Title = redact(e.Title)
	return e
}

// RoomForSelf reports whether one more row of the agent itself may wait: one of the
// operator's conversation, or of another agent's, which use half of the room at most.
func (s State) RoomForSelf(operator bool) bool {
	all, peers := 0, 0
	for _, msg := range s.Inbox {
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

// Sleeps reports whether a conversation has a sleep with a reason that waits for its
// time.
func (s State) Sleeps(who Principal) bool {
	return slices.ContainsFunc(s.Inbox, func(msg Message) bool {
		return msg.isSleep() && msg.Kind == KindSleep && msg.Principal() == who
	})
}

// replaceSleeps ends the sleep of a conversation, because another one begins.
func (m *machine) replaceSleeps(who Principal) {
	for _, msg := range slices.Clone(m.Inbox) {
		if msg.isSleep() && msg.Principal() == who {
			m.skip(msg, "replaced by a later one")
		}
	}
}

// forgetSleeps ends every sleep, because the memory of why is gone.
func (m *machine) forgetSleeps(why string) {
	m.SleepUntil = time.Time{}
	for _, msg := range slices.Clone(m.Inbox) {
		if msg.isSleep() {
			m.skip(msg, why)
		}
	}
}

// sleepEnds forgets until when the agent asked to be left alone, if that was for this
// row: another conversation may sleep on.
func (m *machine) sleepEnds(msg Message) {
	if msg.isSleep() && m.SleepUntil.Equal(msg.NextRetryAt) {
		m.SleepUntil = time.Time{}
	}
}

// skip ends a row without a turn.
func (m *machine) skip(msg Message, why string) {
	m.sleepEnds(msg)
	m.line(Line{Kind: LineEnded, Key: msg.Key, Source: msg.Source, From: msg.From, What: string(Skipped), Reason: why})
	m.removeMessage(msg.Key)
}

// endSleeps ends every sleep, because something came from who: a message of that
// principal, or, if who is nobody, a nudge. The turn of a message of the same
// conversation takes the place of the sleep's own. In every other case nothing else
// would do what the agent woke for, so its turn comes now. endSleeps returns the
// words of the sleep that the message ends.
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
			m.line(Line{Kind: LineSleep, What: sleepOver, Key: msg.Key, Source: Self, Reason: what})
		}
	}
	return ended
}

// wakeAt lets a row of the agent itself have its turn at a time before its own.
func (msg *Message) wakeAt(t time.Time) {
	msg.NextRetryAt, msg.Span, msg.Early = t, 0, true
}

// retryWakeup lets a row of the agent itself have its turn now, because the operator
// asks for it. That is a word from them.
func (m *machine) retryWakeup(row *Message) {
	if m.operatorHeard(); m.now.Before(row.NextRetryAt) {
		m.sleepEnds(*row)
		row.wakeAt(m.now)
	}
	m.line(Line{Kind: LineSleep, What: selfRetried, Key: row.Key, Source: Self})
}

// What lines of the kind LineSleep say of rows of the agent itself.
const (
	sleepOver   = "over"    // its turn may come before its time
	selfRetried = "retried" // likewise, because the operator asks for it
	selfHeld    = "held"    // the operator is told that rows wait
)

// applySleepLine applies a line about rows of the agent itself.
func (m *machine) applySleepLine(l Line) {
	switch l.What {
	case sleepOver, selfRetried:
		if l.What == selfRetried {
			m.operatorHeard()
		}
		if row := m.message(l.Key); row != nil && l.At.Before(row.NextRetryAt) {
			row.wakeAt(l.At)
		}
	case selfHeld:
		m.Streak.Told = true
	}
}

// applyTurnLine counts the turn of a row of the agent itself. A stop by hand is a word of
// the operator.
func (m *machine) applyTurnLine(l Line) {
	if l.What == "stop" {
		m.operatorHeard()
	}
	if row := m.message(l.Key); l.What == "dispatched" && row != nil && row.Source == Self && row.TurnID == "" {
		m.Streak.count(*row)
	}
}

// noteSaid records where the last words of a turn lie in the rows that it made. A reset
// ends the memory of an attempt that began before it.
func (m *machine) noteSaid(turnID string, epoch uint64, file string) {
	if epoch <= m.Reset.Epoch {
		return
	}
	for i := range m.Inbox {
		if msg := &m.Inbox[i]; msg.Source == Self && msg.MadeBy == turnID && turnID != "" {
			msg.Said = file
		}
	}
}

// SelfHeld returns what holds a row of the agent itself back once its time has come,
// or "" if nothing does. A turn that has begun is not held back by its source.
func (s State) SelfHeld(msg Message, p Policy, now time.Time) string {
	if msg.Source != Self || msg.TurnID != "" {
		return ""
	}
	tier := s.Tier(p, now)
	switch {
	case s.Halted():
		return "the agent is halted"
	case p.SelfTurns <= 0:
		return "[turn] self_turns is 0"
	case tier != TierNormal:
		return "money is short (" + string(tier) + ")"
	case s.Streak.used(p):
		return fmt.Sprintf("%s of its own ran since its operator was heard, and [turn] self_turns is %d", times(s.Streak.Turns, "turn"), p.SelfTurns)
	case s.Streak.full(msg, p):
		return fmt.Sprintf("%s of its own ran in conversations with others since its operator was heard; they may use half of [turn] self_turns, which is %d",
			times(s.Streak.Peers, "turn"), p.SelfTurns)
	}
	return ""
}

// tellHeld informs the operator, once in a streak, that rows of the agent itself wait
// for a word from them. What others may use of it being used up is not a reason.
func (m *machine) tellHeld() {
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
	m.line(Line{Kind: LineSleep, What: selfHeld, Count: held})
	m.notice(fmt.Sprintf("I have woken myself %s since I last heard from you, and [turn] self_turns allows %d. Wakeups that wait: %d. Any message from you lets me go on; `agentstateloop inbox list` shows them, and `agentstateloop inbox drop` removes one.",
		times(m.Streak.Turns, "time"), m.policy.SelfTurns, held))
}

// beginSelf counts the turn of a row of the agent itself, which begins now. A sleep is
// over.
func (m *machine) beginSelf(msg Message) {
	m.Streak.count(msg)
	m.Asleep = false
	m.sleepEnds(msg)
}

// nothingToDo reports whether the inbox is empty, but for what the agent planned for
// later.
func (m *machine) nothingToDo() bool {
	return !slices.ContainsFunc(m.Inbox, func(msg Message) bool { return msg.Source != Self || m.runnable(msg, m.policy, m.now) })
}

// maxWait returns how far ahead the time of a deferred row may be. What the agent
// planned waits no longer than it would have in the first place.
func (msg Message) maxWait() time.Duration {
	if msg.Source == Self && msg.TurnID == "" {
		return msg.Span
	}
	return maxDeferral
}

// Planned returns the rows of the agent itself that wait for their time, or for a turn
// once it has come, the next first.
func (s State) Planned() []Message {
	var rows []Message
	for _, msg := range s.Inbox {
		if msg.Source == Self && msg.Status == Deferred {
			rows = append(rows, msg)
		}
	}
	slices.SortStableFunc(rows, func(a, b Message) int { return a.NextRetryAt.Compare(b.NextRetryAt) })
	return rows
}
