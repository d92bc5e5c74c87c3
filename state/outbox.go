package state

import (
	"slices"
	"time"
)

// lineQueued marks the history line of an effect that was queued.
const lineQueued = "queued"

// queue adds an effect to the outbox and returns its id. An effect without an id
// gets one.
func (m *machine) queue(e Effect) (id string) {
	if e.ID == "" {
		e.ID = m.mint(string(e.Kind))
	}
	e.Created, e.Trace = m.now, m.traceOf(Line{TurnID: e.TurnID, Trace: e.Trace})
	if life := e.Kind.life(); life > 0 && e.Kind != OperatorQuestion {
		e.Expires = m.now.Add(life)
	}
	m.Numbers.Effects++
	e.Number = m.Numbers.Effects
	m.Outbox = append(m.Outbox, e)
	m.line(Line{Kind: LineEffect, ID: e.ID, What: lineQueued, Effect: &e, Trace: e.Trace})
	return e.ID
}

// DueEffects returns the effects that may be performed now, in order. It has only the first of each
// lane, so that order holds and an effect that backs off does not hold up the others
// (docs/design.md, "The outbox"). An effect whose credential was denied in this cycle waits for the
// next cycle, and does not make a poll due.
func (s State) DueEffects(now time.Time) []Effect {
	return slices.DeleteFunc(s.firstOfLanes(), func(e Effect) bool { return now.Before(s.notBefore(e)) })
}

// firstOfLanes returns the effects that may be performed now or when their pause is
// over, in order.
func (s State) firstOfLanes() []Effect {
	taken := map[lane]bool{}
	var first []Effect
	for _, e := range s.Outbox {
		l := e.lane()
		if s.Held(e) || e.exhausted() || taken[l] || s.Denied(e.Channel.credential()) {
			continue
		}
		taken[l] = true
		first = append(first, e)
	}
	return first
}

// lane is a channel and a recipient. Only the first row of each lane may be sent. Rows about a
// credential have lanes of their own, one for the keymaster and one for the operator, so that other
// rows do not hold up a credential blocker.
type lane struct {
	channel    Channel
	to         string
	credential string
	relayed    bool
}

func (e Effect) lane() lane {
	return lane{e.Channel, e.To, e.Credential, e.Credential != "" && e.Kind == Relay}
}

// Unpaused reports that a person asks for a poll. It tries all waiting rows at once, even if their
// pauses are not over.
type Unpaused struct{}

func (Unpaused) apply(m *machine) {
	for i := range m.Outbox {
		m.Outbox[i].NotBefore = time.Time{}
	}
	for backend, o := range m.Outages {
		o.Until = earlier(o.Until, m.now)
		m.Outages[backend] = o
	}
}

// effectIndex returns the index of the effect with this id.
func (m *machine) effectIndex(id string) (int, bool) {
	i := slices.IndexFunc(m.Outbox, func(e Effect) bool { return e.ID == id })
	return i, i >= 0
}

// endEffect removes a row from the outbox and records how it ended.
func (m *machine) endEffect(i int, what, reason string) {
	e := m.Outbox[i]
	m.Outbox = slices.Delete(m.Outbox, i, i+1)
	m.noteReplyEnded(e.ID, what, m.now)
	m.line(Line{Kind: LineDelivery, ID: e.ID, What: what, Reason: reason, TurnID: e.TurnID, Trace: e.Trace})
}

// Effect returns the outbox row with this id, or the row of a hook.
func (s State) Effect(id string) (Effect, bool) {
	if i := s.hookCallIndex(id); i >= 0 {
		return s.HookCalls[i], true
	}
	i := slices.IndexFunc(s.Outbox, func(e Effect) bool { return e.ID == id })
	if i < 0 {
		return Effect{}, false
	}
	return s.Outbox[i], true
}

// applyEffectLine queues an effect again, and counts it if its kind has a limit.
func (m *machine) applyEffectLine(l Line) {
	if l.Effect != nil && l.Effect.Channel == ByHook {
		m.applyHookLine(l)
		return
	}
	if l.Effect != nil {
		m.Numbers.Effects = max(m.Numbers.Effects, l.Effect.Number)
	}
	i, there := m.effectIndex(l.ID)
	if there && l.What == lineRendered && l.Effect != nil {
		m.Outbox[i].Sum = l.Effect.Sum
	}
	if there || l.What == lineRendered || l.Effect == nil {
		return
	}
	m.Outbox = append(m.Outbox, *l.Effect)
	switch l.Effect.Kind {
	case Ack:
		m.Acks = append(m.Acks, l.At)
		m.AckWaits, m.Unmailed = WaitingAck{}, false
		m.noteNudgeAck()
	case Reply:
		m.Unmailed = m.Unmailed && l.Effect.Channel != ByMail
	case Quiet:
		m.Quiets = append(m.Quiets, l.At)
	case Alarm:
		m.Alarms = append(m.Alarms, l.At)
	case OperatorQuestion:
		m.OperatorAsked = append(m.OperatorAsked, AskedOperator{At: l.At, By: l.Effect.Asker})
	}
	m.applyNotification(*l.Effect)
}
