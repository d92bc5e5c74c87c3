package state

import "time"

// Hold is the reason why a row of the outbox has not left yet.
type Hold string

// The holds.
const (
	HoldSending Hold = "sending" // a process is sending it, or was killed while sending
	HoldHalt    Hold = "halt"    // HALT holds it back
	HoldLogin   Hold = "login"   // its server denies our login
	HoldDown    Hold = "down"    // no mail can be sent
	HoldBackoff Hold = "backoff" // it failed, and its pause is not over
	HoldPace    Hold = "pace"    // five messages have left through the mesh within a minute
	HoldOrder   Hold = "order"   // an earlier row goes to the same recipient
	HoldPoll    Hold = "poll"    // the next poll sends it
	HoldHook    Hold = "hook"    // its hook fails
)

// HoldOf returns why a row of the outbox, or of a hook, waits at now, and when it can be tried
// next. until is zero if the next try does not depend on the time alone.
func (s State) HoldOf(e Effect, now time.Time) (why Hold, until time.Time) {
	if e.Channel == ByHook {
		if s.FailingHooks[e.To].Fails() {
			return HoldHook, e.NotBefore
		}
		return HoldPoll, time.Time{}
	}
	switch {
	case e.Sending:
		return HoldSending, time.Time{}
	case s.Held(e):
		return HoldHalt, time.Time{}
	case s.Fails(e.Channel.credential()):
		return HoldLogin, time.Time{}
	case e.Channel == ByMail && s.SendingIsDown():
		return HoldDown, s.NextTry(e.ID)
	case s.isBehind(e):
		return HoldOrder, s.NextTry(e.ID)
	case now.Before(e.NotBefore):
		return HoldBackoff, e.NotBefore
	case now.Before(s.paced(e.Channel)):
		return HoldPace, s.paced(e.Channel)
	}
	return HoldPoll, time.Time{}
}

// isBehind reports whether an earlier row to the same recipient must leave before e.
func (s State) isBehind(e Effect) bool {
	for _, other := range s.Outbox {
		if other.ID == e.ID {
			return false
		}
		if other.lane() == e.lane() && !s.Held(other) {
			return true
		}
	}
	return false
}
