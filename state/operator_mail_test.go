package state_test

import (
	"slices"
	"time"

	"agentstateloop/internal/testkit/statetest"
	"agentstateloop/state"
)

const ackAfter = 90 * time.Second

// withAckAfter is a policy with which acks wait, in half of the lives.
func withAckAfter(p state.Policy, script []byte) state.Policy {
	if len(script)/2%2 == 1 {
		p.AckAfter = ackAfter
	}
	return p
}

// wantPatience checks an ack that waits: it waits for what may still be answered, while
// the agent is engaged, no longer than it may, and is made neither before its time nor
// after its answer.
func (l *life) wantPatience(before state.State, events []state.Event) {
	broken := func(what string) {
		l.t.Fatalf("%v: %s: %s", events, what, statetest.JSON(l.t, l.s))
	}
	waits := l.s.AckWaits
	_, there := l.s.Message(waits.Key)
	switch {
	case waits.Until.IsZero():
	case !l.s.Phase.Engaged():
		broken("an ack waits in IDLE")
	case waits.Key != "" && !there:
		broken("an ack waits for a message that has left the inbox")
	case waits.Until.After(l.now.Add(l.p.AckAfter)):
		broken("an ack waits for too long")
	case l.s.AckDue(l.now):
		broken("an ack that is due was not made")
	}
	if l.s.Unmailed && !l.s.Phase.Engaged() {
		broken("the operator is to hear of a waking that is over")
	}
	for _, line := range l.s.Lines {
		if !beginsEffect(line) || line.Effect.Kind != state.Ack || l.p.AckAfter == 0 {
			continue
		}
		planned := before.AckWaits.Until
		if planned.IsZero() || l.now.Before(planned) && !l.now.Before(before.LastStep) {
			broken("an ack was made before its time")
		}
		if key := line.Effect.Cause; key != "" && !slices.ContainsFunc(l.s.Inbox, func(msg state.Message) bool { return msg.Key == key }) {
			broken("an ack was made after its answer")
		}
	}
}
