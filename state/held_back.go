package state

import (
	"cmp"
	"fmt"
	"time"
)

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
	case msg.Damaged:
		return HeldBack{Why: cmp.Or(msg.Reason, "its file is damaged") + "; it is fetched again"}, true
	case s.Halted():
		return HeldBack{Why: "the agent is halted"}, true
	case msg.Status == Deferred && now.Before(msg.NextRetryAt):
		return HeldBack{Why: msg.Reason, Until: msg.NextRetryAt}, true
	case !p.Turns:
		return HeldBack{Why: "`inbox next` takes it"}, true
	case now.Before(s.CooldownUntil):
		return HeldBack{Why: fmt.Sprintf("cool-down after %s that failed", plural(s.FailedTurns, "turn")), Until: s.CooldownUntil}, true
	case allOut:
		return HeldBack{Why: o.Sentence(backend), Until: o.Until}, true
	case s.SelfHeld(msg, p, now) != "":
		return HeldBack{Why: s.SelfHeld(msg, p, now)}, true
	case tier == TierDead:
		return HeldBack{Why: "the agent is out of money"}, true
	case !tier.allows(msg):
		return HeldBack{Why: "money is short, so only the operator's messages run"}, true
	}
	return HeldBack{}, false
}

// SharesTurn reports whether the active turn is about the message, or answers it too.
func (s State) SharesTurn(msg Message) bool {
	return s.Turn.Status != HeadIdle && msg.TurnID != "" && msg.TurnID == s.Turn.TurnID && !msg.Damaged
}
