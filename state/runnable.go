package state

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// runnable reports whether this message could have its turn now.
func (s State) runnable(msg Message, p Policy, now time.Time) bool {
	return msg.isDue(now) && s.mayRun(msg, p, now)
}

// mayRun is runnable for a message that is due.
func (s State) mayRun(msg Message, p Policy, now time.Time) bool {
	return p.Turns && s.turnsAllowed(p, now) && s.Tier(p, now).allows(msg) && s.SelfHeld(msg, p, now) == ""
}

// turnsAllowed reports whether any turn may run: a backend is usable, and neither HALT nor a
// cool-down is on.
func (s State) turnsAllowed(p Policy, now time.Time) bool {
	_, open := s.Backend(p, now)
	return open && !s.Halted() && !now.Before(s.CooldownUntil)
}

// isDue reports whether the message waits for its turn, and its time has come.
func (msg Message) isDue(now time.Time) bool {
	return !msg.Damaged && !msg.Held && (msg.Status == Queued || msg.Status == Deferred && !now.Before(msg.NextRetryAt))
}

// CanRun reports whether a turn could be claimed at now, for a waiting message or for a suspended
// turn without open questions.
func (s State) CanRun(p Policy, now time.Time) bool {
	if s.Turn.Status == HeadIdle {
		return s.nextMessage(p, now) >= 0
	}
	msg, _ := s.TurnMessage()
	return p.Turns && s.turnsAllowed(p, now) && s.Turn.ready() && s.affords(p, now) && !msg.Damaged
}

// NextToRun returns the message whose turn would be claimed at now: the first that can run, or the
// message of a suspended turn without open questions.
func (s State) NextToRun(p Policy, now time.Time) (Message, bool) {
	if !s.CanRun(p, now) {
		return Message{}, false
	}
	if s.Turn.Status != HeadIdle {
		return s.TurnMessage()
	}
	return s.Inbox[s.nextMessage(p, now)], true
}

// affords reports whether the tier lets the active turn continue.
func (s State) affords(p Policy, now time.Time) bool {
	msg, _ := s.TurnMessage()
	return s.Tier(p, now).allows(msg)
}

// nextMessage returns the inbox index of the message that runs next, or -1. Messages from senders
// run first, in the order of their arrival. Messages that the agent planned itself and prompts by
// the clock run after them, in the order of their times.
func (s State) nextMessage(p Policy, now time.Time) int {
	next := -1
	for i, msg := range s.Inbox {
		switch {
		case !s.runnable(msg, p, now):
		case !msg.ByItself():
			return i
		case next < 0 || msg.NextRetryAt.Before(s.Inbox[next].NextRetryAt):
			next = i
		}
	}
	return next
}

// Before returns the messages that have their turn before the message with this key, if no other
// message comes. Messages that the agent planned itself and prompts by the clock come last.
func (s State) Before(key string, p Policy, now time.Time) (first []Message) {
	for _, msg := range s.Inbox {
		if msg.Key == key {
			return first
		}
		if !msg.ByItself() && s.runnable(msg, p, now) {
			first = append(first, msg)
		}
	}
	return first
}

// hasWork reports whether a turn is dispatched, running or suspended, or an operator message could
// run now. A wakeup or a prompt by the clock is work once its turn has begun. A message that is
// held back is not work, with two exceptions: a message that is collecting, and a mail above the
// hourly limit, which runs as soon as the limit allows (docs/design.md, "Glossary").
func (s State) hasWork(p Policy, now time.Time) bool {
	switch s.Turn.Status {
	case HeadIdle:
	case HeadSuspended:
		if _, usable := s.Backend(p, now); s.affords(p, now) && (usable || s.Turn.open()) {
			return true
		}
	default:
		return true
	}
	return slices.ContainsFunc(s.Inbox, func(msg Message) bool {
		return msg.Operator && !msg.ByItself() && (msg.isDue(now) || msg.overRate() || msg.isCollecting()) && s.mayRun(msg, p, now)
	})
}

// HaltedReason is why a message waits while HALT is set.
const HaltedReason = "the agent is halted"

// HeldBack is the reason why a message does not have its turn now. Until is when the reason ends,
// or zero if unknown.
type HeldBack struct {
	Why   string
	Until time.Time
}

// HeldBack returns the reason that keeps a message from its turn. ok is false if the message waits
// only for the turns before its own.
func (s State) HeldBack(msg Message, p Policy, now time.Time) (h HeldBack, ok bool) {
	tier := s.Tier(p, now)
	backend, o, allOut := s.AllOut(p, now)
	switch {
	case msg.Held:
		return HeldBack{Why: HeldReason}, true
	case msg.Damaged:
		return HeldBack{Why: cmp.Or(msg.Reason, "its file is damaged") + "; it is fetched again"}, true
	case s.Halted():
		return HeldBack{Why: HaltedReason}, true
	case msg.Status == Deferred && now.Before(msg.NextRetryAt):
		return HeldBack{Why: msg.Reason, Until: msg.NextRetryAt}, true
	case !p.Turns:
		return HeldBack{Why: "`inbox next` takes it"}, true
	case now.Before(s.CooldownUntil):
		return HeldBack{Why: fmt.Sprintf("cool-down after %s failed in a row", plural(s.FailedTurns, "turn")), Until: s.CooldownUntil}, true
	case allOut:
		return HeldBack{Why: o.Sentence(backend), Until: o.Until}, true
	case s.SelfHeld(msg, p, now) != "":
		return HeldBack{Why: s.SelfHeld(msg, p, now)}, true
	case tier == TierDead:
		return HeldBack{Why: "the agent is out of money"}, true
	case !tier.allows(msg):
		return HeldBack{Why: "money is short, so only your messages run"}, true
	}
	return HeldBack{}, false
}

// SharesTurn reports whether the active turn is about the message, or answers it too.
func (w Work) SharesTurn(msg Message) bool {
	return w.Turn.Status != HeadIdle && msg.TurnID != "" && msg.TurnID == w.Turn.TurnID && !msg.Damaged
}

// Consecutive messages of one sender that share a turn (docs/design.md, "Turns").

// CollectReason is the Reason of a message that waits because its sender may still be writing.
const CollectReason = "waits for what its sender still writes, [turn] collect"

// Limits on the messages of one turn. A sender who writes without a pause waits at most
// collectTimes times the silence.
const (
	maxCollected      = 20
	maxCollectedBytes = 256 << 10 // of payloads
	collectTimes      = 3
)

// isCollecting reports whether the message waits because its sender may still be writing.
func (msg Message) isCollecting() bool { return msg.Status == Deferred && msg.Reason == CollectReason }

// collects reports whether a message without a turn may share one. A question of another agent may
// not, because each has its own report. A message that asks for results of its own may not either.
// Messages that no person waits for may not, because their sender writes no more.
func (p Policy) collects(msg Message) bool {
	if p.Collect <= 0 || !p.Turns || msg.Damaged || msg.Held || msg.TurnID != "" || msg.AsksFields || msg.IsFollowUp() {
		return false
	}
	return msg.Source == Mail || msg.Source == CLI || msg.Source == Mesh && msg.Kind != "ask"
}

// sameSender reports whether one sender wrote both messages in the same way, without a reset of the
// memory between them.
func (w Work) sameSender(a, b Message) bool {
	return a.Source == b.Source && a.From == b.From && a.Proof == b.Proof && a.Operator == b.Operator && a.ThreadID == b.ThreadID &&
		(a.Seq <= w.Reset.Arrivals) == (b.Seq <= w.Reset.Arrivals)
}

// collect makes a new message wait until its sender is silent, together with the sender's earlier
// messages.
func (m *machine) collect(msg *Message) {
	if msg.Status != Queued || !m.policy.collects(*msg) {
		return
	}
	first := m.now
	for _, row := range m.Inbox {
		if row.isCollecting() && m.sameSender(row, *msg) {
			first = earlier(first, row.Observed)
		}
	}
	due := earlier(m.now.Add(m.policy.Collect), first.Add(collectTimes*m.policy.Collect))
	msg.Status, msg.Reason, msg.NextRetryAt = Deferred, CollectReason, due
	for i := range m.Inbox {
		if row := &m.Inbox[i]; row.isCollecting() && m.sameSender(*row, *msg) {
			row.NextRetryAt = due
		}
	}
}

// releaseCollected ends or shortens the waits that are out of date, because the setting was changed
// or the clock was set back.
func (m *machine) releaseCollected() {
	for i := range m.Inbox {
		msg := &m.Inbox[i]
		switch {
		case !msg.isCollecting():
		case m.policy.Collect <= 0 || !m.policy.Turns:
			msg.Status, msg.Reason, msg.NextRetryAt = Queued, "", time.Time{}
		default:
			msg.NextRetryAt = earlier(msg.NextRetryAt, m.now.Add(collectTimes*m.policy.Collect))
		}
	}
}

// lease returns the inbox indexes of the messages that share a turn with message i, the first that
// can run. They shared its turn before, or its sender wrote them after it.
func (s State) lease(p Policy, i int) []int {
	first := s.Inbox[i]
	leased := []int{}
	if first.TurnID != "" {
		for j, msg := range s.Inbox {
			if msg.TurnID == first.TurnID && !msg.Damaged {
				leased = append(leased, j)
			}
		}
		return leased
	}
	size := 0
	for j := i; j < len(s.Inbox); j++ {
		msg := s.Inbox[j]
		if j > i && (!p.collects(first) || !p.collects(msg) || !s.sameSender(first, msg) || msg.Status != Queued && !msg.isCollecting()) {
			continue
		}
		if size += msg.Size; j > i && (len(leased) == maxCollected || size > maxCollectedBytes) {
			break
		}
		leased = append(leased, j)
	}
	return leased
}

// NextLease returns the messages whose turn would be claimed at now, oldest first.
func (s State) NextLease(p Policy, now time.Time) (all []Message) {
	msg, ok := s.NextToRun(p, now)
	switch {
	case !ok:
		return nil
	case s.Turn.Status != HeadIdle:
		return append(s.collected(), msg)
	}
	return s.LeaseOf(p, s.Inbox[s.nextMessage(p, now)].Key)
}

// LeaseOf returns the messages, oldest first, that share a turn if the message with this key, the
// first of them, is claimed now.
func (s State) LeaseOf(p Policy, key string) (all []Message) {
	i := slices.IndexFunc(s.Inbox, func(msg Message) bool { return msg.Key == key })
	if i < 0 {
		return nil
	}
	for _, j := range s.lease(p, i) {
		all = append(all, s.Inbox[j])
	}
	return all
}

// collected returns the other messages that the active turn answers, oldest first.
func (s State) collected() (all []Message) {
	for _, key := range s.Turn.With {
		if msg, ok := s.Message(key); ok {
			all = append(all, msg)
		}
	}
	return all
}

// Collected returns the other messages that the active turn answers.
func (s State) Collected() []Message { return s.collected() }

// CollectingUntil returns when the next sender will have been silent. ok is false if no message is
// collecting.
func (r Received) CollectingUntil() (at time.Time, ok bool) {
	for _, msg := range r.Inbox {
		if msg.isCollecting() && (!ok || msg.NextRetryAt.Before(at)) {
			at, ok = msg.NextRetryAt, true
		}
	}
	return at, ok
}

// followLead copies the state of lead in its turn to the messages that share the turn. A message
// damaged meanwhile has left the turn, unless the turn ends first.
func (m *machine) followLead(lead Message) {
	for i := range m.Inbox {
		row := &m.Inbox[i]
		if row.Key == lead.Key || row.Damaged || !slices.Contains(m.Turn.With, row.Key) && (lead.TurnID == "" || row.TurnID != lead.TurnID) {
			continue
		}
		row.TurnID, row.Epoch, row.Attempts, row.Cost, row.Status = lead.TurnID, lead.Epoch, lead.Attempts, lead.Cost, lead.Status
		row.NextRetryAt, row.Reason, row.Note, row.Fresh, row.Working = lead.NextRetryAt, lead.Reason, lead.Note, lead.Fresh, lead.Working
	}
}

// leaveLease takes a message with a damaged payload out of its shared turn. The others go on
// without it, and it has a turn of its own once it is fetched again. A suspended turn waits for its
// own message.
func (m *machine) leaveLease(msg *Message) {
	if m.Turn.Key == msg.Key {
		return
	}
	shared := slices.ContainsFunc(m.Inbox, func(row Message) bool { return row.Key != msg.Key && msg.TurnID != "" && row.TurnID == msg.TurnID })
	if shared {
		msg.Status, msg.TurnID, msg.Epoch, msg.Attempts, msg.Cost, msg.Note, msg.Fresh = Queued, "", 0, 0, 0, "", false
	}
}

// Ends reports whether the line of a task ends the message with this key.
func (l Line) Ends(key string) bool {
	return l.Key == key || slices.ContainsFunc(l.Collected, func(msg Message) bool { return msg.Key == key })
}
