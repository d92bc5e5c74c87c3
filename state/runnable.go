package state

import (
	"slices"
	"time"
)

// runnable says whether nothing holds this message back.
func (s State) runnable(msg Message, p Policy, now time.Time) bool {
	return p.Turns && s.turnsAllowed(now) && msg.isDue(now) && s.Tier(p, now).allows(msg)
}

// turnsAllowed says whether turns may run at all.
func (s State) turnsAllowed(now time.Time) bool { return !s.Halted() && !now.Before(s.CooldownUntil) }

// isDue says whether the message could have its turn at now.
func (msg Message) isDue(now time.Time) bool {
	return msg.Status == Queued || msg.Status == Deferred && !now.Before(msg.NextRetryAt)
}

// CanRun says whether a turn could be claimed at now: a message that waits, or
// a suspended turn that has nothing left to wait for.
func (s State) CanRun(p Policy, now time.Time) bool {
	if s.Turn.Status == HeadIdle {
		return s.nextMessage(p, now) >= 0
	}
	return p.Turns && s.turnsAllowed(now) && s.Turn.ready() && s.affords(p, now)
}

// affords says whether the tier lets the active turn go on.
func (s State) affords(p Policy, now time.Time) bool {
	msg, _ := s.Find(s.Turn.Key)
	return s.Tier(p, now).allows(msg)
}

// nextMessage is the inbox index of the message that runs next: of those that can,
// the one that arrived first; -1 when there is none.
func (s State) nextMessage(p Policy, now time.Time) int {
	return slices.IndexFunc(s.Inbox, func(msg Message) bool { return s.runnable(msg, p, now) })
}

// hasWork: a turn dispatched, running or suspended, or an operator message
// that could run now. What is held back is not work (DESIGN 1).
func (m *machine) hasWork() bool {
	switch m.Turn.Status {
	case HeadIdle:
	case HeadSuspended:
		if m.affords(m.policy, m.now) {
			return true
		}
	default:
		return true
	}
	return slices.ContainsFunc(m.Inbox, func(msg Message) bool {
		return msg.Operator && m.runnable(msg, m.policy, m.now)
	})
}
