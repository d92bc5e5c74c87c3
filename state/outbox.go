package state

import (
	"slices"
	"time"
)

// Deliveries holds the effects on their way, and what became of those that were not delivered.
type Deliveries struct {
	Outbox []Effect `json:"outbox,omitempty"` // in order of creation

	// SendingFails is set while the server that sends our mail cannot be used. Undelivered are the
	// rows that were given up, oldest first.
	SendingFails SendingFailure `json:"sending_fails,omitzero"`
	Undelivered  []Effect       `json:"undelivered,omitempty"`
	Unfiled      []Unfiled      `json:"unfiled,omitempty"` // oldest first
	Owing        bool           `json:"owing,omitempty"`   // in IDLE, while an answer of the last hour could not be delivered

	Lost []Returned `json:"lost,omitempty"` // mails that came back, in that order
}

func (d Deliveries) clone() Deliveries {
	d.Outbox, d.Undelivered = slices.Clone(d.Outbox), slices.Clone(d.Undelivered)
	d.Unfiled, d.Lost = slices.Clone(d.Unfiled), slices.Clone(d.Lost)
	return d
}

func (d *Deliveries) clampTimes(c clamp) {
	c.past(&d.SendingFails.Since)
	for i := range d.Outbox {
		row := &d.Outbox[i]
		c.past(&row.Created)
		c.deadline(&row.NotBefore, maxBackoff)
		c.deadline(&row.Expires, max(ackLife, row.Kind.life()))
	}
	for i := range d.Undelivered {
		row := &d.Undelivered[i]
		c.past(&row.Created, &row.GivenUp)
		c.deadline(&row.Expires, row.Kind.life())
	}
	for i := range d.Unfiled {
		c.past(&d.Unfiled[i].Sent)
		c.deadline(&d.Unfiled[i].NotBefore, maxBackoff)
	}
	for i := range d.Lost {
		c.past(&d.Lost[i].At, &d.Lost[i].Told)
	}
}

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
	m.line(Line{Kind: LineEffect, ID: e.ID, What: WordQueued, Effect: &e, Trace: e.Trace})
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
func (d *Deliveries) effectIndex(id string) (int, bool) {
	i := slices.IndexFunc(d.Outbox, func(e Effect) bool { return e.ID == id })
	return i, i >= 0
}

// endEffect removes a row from the outbox and records how it ended.
func (m *machine) endEffect(i int, what Word, reason string) {
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
	if there && l.What == WordRenderedAgain && l.Effect != nil {
		m.Outbox[i].Sum = l.Effect.Sum
	}
	if there || l.What == WordRenderedAgain || l.Effect == nil {
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

// postsAMinute limits the messages that an agent sends to others within a minute, on a mesh without
// a pace of its own (docs/protocol.md, "The mesh over NATS").
const postsAMinute = 5

// notePost records that a message left through the mesh.
func (m *machine) notePost() {
	if m.policy.PacesMesh {
		m.Posts = append(m.Posts, m.now)
	}
}

// paced returns when the pace of the channel allows another message of ours.
func (h Hourly) paced(c Channel) time.Time {
	if c != ByMesh || len(h.Posts) < postsAMinute {
		return time.Time{}
	}
	return h.Posts[len(h.Posts)-postsAMinute].Add(time.Minute)
}

// notBefore returns when a row may be sent, by its own pause and the pace of its channel.
func (h Hourly) notBefore(e Effect) time.Time {
	return latest(e.NotBefore, h.paced(e.Channel))
}

// overtaken returns why an unsent mail is out of date, or "". An ack, a quiet and a "still working"
// mail are worth something only at their time (docs/design.md, "The outbox").
func (m *machine) overtaken(i int) string {
	row := m.Outbox[i]
	switch {
	case row.Kind == OperatorQuestion && !row.Sending && !m.asksOperator(row.ID):
		return "no turn waits for its answer any more"
	case row.Sending || !row.Kind.perishable():
		return ""
	case row.Kind == Ack && m.answeredBefore(i):
		return ackAnswered
	case !m.heldUp(i):
		return ""
	}
	switch row.Kind {
	case Ack:
		if m.answerAfter(i) {
			return ackAnswered
		}
		if m.Phase != PREP || row.Created.Before(m.PhaseSince) {
			return "PREP is over"
		}
	case Quiet:
		if m.Phase != IDLE || row.Created.Before(m.PhaseSince) {
			return "the agent was woken"
		}
	case Working:
		if _, waits := m.MessageOfTurn(row.TurnID); !waits {
			return "its turn has ended"
		}
	}
	return ""
}

// heldUp reports whether a row was not sent at its first try: it failed, or has waited for a
// minute. HALT or an earlier row may have held it up, or the poll that was about to send it was
// killed.
func (m *machine) heldUp(i int) bool {
	row := m.Outbox[i]
	return row.failed() || m.now.Sub(row.Created) >= firstBackoff
}

// failed reports whether a row was tried without success.
func (e Effect) failed() bool { return e.Attempts > 0 || e.Denied }

// answerAfter reports whether a turn's reply to the operator is queued behind a row.
func (d *Deliveries) answerAfter(i int) bool {
	for _, e := range d.Outbox[i+1:] {
		if e.Kind == Reply && e.Channel == ByMail {
			return true
		}
	}
	return false
}
