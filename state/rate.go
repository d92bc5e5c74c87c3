package state

import (
	"fmt"
	"slices"
	"time"
)

// OverRate is the Reason of a mail that waits because too many came within an hour.
const OverRate = "over the limit of mails an hour, [budget] mails_an_hour"

// OverEventRate is the Reason of a message of a program that waits because too many came within an
// hour.
const OverEventRate = "over the limit of events an hour, [budget] events_an_hour"

// overRate reports whether the message waits because of the hourly limit of its kind.
func (msg Message) overRate() bool {
	return msg.Status == Deferred && (msg.Reason == OverRate || msg.Reason == OverEventRate)
}

// ration is how many messages of one kind may run within an hour.
type ration struct {
	reason string       // of a message above the limit
	limit  int          // 0 means unlimited
	let    *[]time.Time // when the last ones were admitted
}

// rations returns the rations of the operator's mails and of programs.
func (m *machine) rations() [2]ration {
	return [2]ration{{OverRate, m.policy.Rate, &m.Accepted}, {OverEventRate, m.policy.EventRate, &m.Programs}}
}

// rationOf returns the ration that a message counts against. It returns false if the message does
// not count.
func (m *machine) rationOf(msg Message) (ration, bool) {
	all := m.rations()
	switch {
	case m.isRationed(msg):
		return all[0], true
	case msg.Cause() == CauseEvent && msg.Source == EventSource && m.policy.Turns && m.policy.EventRate > 0 && !m.letIn:
		return all[1], true
	}
	return ration{}, false
}

// isRationed reports whether the message counts against the limit on mails: it costs money, and
// anybody can send it in the operator's name, by mistake or by a rule of theirs. A message that a
// person let in, by hand or by an answer, does not count (docs/design.md, "The inbox").
func (m *machine) isRationed(msg Message) bool {
	return msg.Operator && msg.Source == Mail && m.policy.Turns && m.policy.Rate > 0 && !m.letIn
}

// applyLetIn applies an event that a person let in.
func (m *machine) applyLetIn(e Event) {
	before := m.letIn
	m.letIn = true
	e.apply(m)
	m.letIn = before
}

// ration defers a message above the limit of its kind. It never rejects one.
func (m *machine) ration(msg *Message) {
	r, rationed := m.rationOf(*msg)
	if !rationed {
		return
	}
	held := m.held(r)
	if len(*r.let) < r.limit && len(held) == 0 {
		*r.let = append(*r.let, m.now)
		return
	}
	slots := r.slots(len(held) + 1)
	msg.Status, msg.Reason, msg.NextRetryAt = Deferred, r.reason, slots[len(held)]
}

// held returns the inbox indexes of the messages above a limit.
func (m *machine) held(r ration) (held []int) {
	for i := range m.Inbox {
		// Steps look here several times, and most rows only wait for their turn.
		if msg := &m.Inbox[i]; msg.Status == Deferred && msg.Reason == r.reason {
			held = append(held, i)
		}
	}
	return held
}

// heldByRate returns the inbox indexes of the mails above the limit.
func (m *machine) heldByRate() []int { return m.held(m.rations()[0]) }

// slots returns when the next n messages may run, if the limit is used up. Each runs an hour after
// the message that is limit places before it.
func (r ration) slots(n int) []time.Time {
	times := slices.Clone(*r.let)
	for range n {
		times = append(times, times[len(times)-r.limit].Add(time.Hour))
	}
	return times[len(*r.let):]
}

// admitHeld queues, in order, the messages that the hourly limits allow now.
func (m *machine) admitHeld() {
	for _, r := range m.rations() {
		held := m.held(r)
		unlimited := r.limit <= 0 || !m.policy.Turns
		for len(held) > 0 && (unlimited || len(*r.let) < r.limit) {
			msg := &m.Inbox[held[0]]
			msg.Status, msg.Reason, msg.NextRetryAt = Queued, "", time.Time{}
			*r.let = append(*r.let, m.now)
			held = held[1:]
		}
	}
	m.planHeld()
}

// planHeld sets the times of the messages above a limit.
func (m *machine) planHeld() {
	for _, r := range m.rations() {
		held := m.held(r)
		if len(held) == 0 {
			continue
		}
		for n, at := range r.slots(len(held)) {
			m.Inbox[held[n]].NextRetryAt = at
		}
	}
}

// tellRate tells the operator once that mails wait because of the hourly limit. It may tell them
// again after the waiting mails have run and the limit has room.
func (m *machine) tellRate() {
	m.planHeld()
	held := m.heldByRate()
	switch {
	case len(held) == 0 && len(m.Accepted) < max(1, m.policy.Rate):
		m.RateTold = time.Time{}
	case len(held) > 0 && m.RateTold.IsZero():
		m.RateTold = m.now
		first, last := m.Inbox[held[0]], m.Inbox[held[len(held)-1]]
		m.notice(fmt.Sprintf("%d of your mails must wait, because more than %d came within an hour ([budget] mails_an_hour). They run in their order: the next at %s, the last at %s. To run one now: `agentstateloop inbox retry %s`; `agentstateloop inbox list` shows the others.",
			len(held), m.policy.Rate, utc(first.NextRetryAt), utc(last.NextRetryAt), first.Key))
	}
}

// applyRation counts the message of a history line against the limit of its kind.
func (m *machine) applyRation(l Line) {
	msg := l.Message
	switch {
	case l.What != "":
	case msg.Operator && msg.Source == Mail && msg.overRate():
		m.RateTold = latest(m.RateTold, l.At)
	case msg.Operator && msg.Source == Mail && msg.Status == Queued:
		m.Accepted = append(m.Accepted, l.At)
	case msg.Cause() == CauseEvent && msg.Status == Queued:
		m.Programs = append(m.Programs, l.At)
	}
}
