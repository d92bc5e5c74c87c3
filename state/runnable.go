package state

import (
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
	return !msg.Damaged && (msg.Status == Queued || msg.Status == Deferred && !now.Before(msg.NextRetryAt))
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
