package state

import (
	"fmt"
	"slices"
	"time"
)

// OverRate is the Reason of a mail that waits because too many came within an hour.
const OverRate = "over the limit of mails an hour, [budget] mails_an_hour"

// overRate reports whether the message waits for the hour to hold fewer mails.
func (msg Message) overRate() bool { return msg.Status == Deferred && msg.Reason == OverRate }

// isRationed reports whether the message counts against the limit: what costs money
// and anybody can send in the operator's name, by mistake or by a rule of theirs.
// What a person let in by hand or by their answer does not (docs/design.md, "The
// inbox").
func (m *machine) isRationed(msg Message) bool {
	return msg.Operator && msg.Source == Mail && m.policy.Turns && m.policy.Rate > 0 && !m.letIn
}

// applyLetIn applies what a person let in.
func (m *machine) applyLetIn(e Event) {
	before := m.letIn
	m.letIn = true
	e.apply(m)
	m.letIn = before
}

// ration defers a mail above the limit. It never rejects one.
func (m *machine) ration(msg *Message) {
	if !m.isRationed(*msg) {
		return
	}
	held := m.heldByRate()
	if len(m.Accepted) < m.policy.Rate && len(held) == 0 {
		m.Accepted = append(m.Accepted, m.now)
		return
	}
	slots := m.slots(len(held) + 1)
	msg.Status, msg.Reason, msg.NextRetryAt = Deferred, OverRate, slots[len(held)]
}

// heldByRate returns the places in the inbox of the mails above the limit.
func (m *machine) heldByRate() (held []int) {
	for i, msg := range m.Inbox {
		if msg.overRate() {
			held = append(held, i)
		}
	}
	return held
}

// slots returns when the next n mails may run: each an hour after the one that stood
// as many places before it as the limit allows. Accepted is full.
func (m *machine) slots(n int) []time.Time {
	times := slices.Clone(m.Accepted)
	for range n {
		times = append(times, times[len(times)-m.policy.Rate].Add(time.Hour))
	}
	return times[len(m.Accepted):]
}

// admitHeld queues the mails for which the hour has room now, in their order.
func (m *machine) admitHeld() {
	held := m.heldByRate()
	unlimited := m.policy.Rate <= 0 || !m.policy.Turns
	for len(held) > 0 && (unlimited || len(m.Accepted) < m.policy.Rate) {
		msg := &m.Inbox[held[0]]
		msg.Status, msg.Reason, msg.NextRetryAt = Queued, "", time.Time{}
		m.Accepted = append(m.Accepted, m.now)
		held = held[1:]
	}
	m.planHeld()
}

// planHeld gives the mails above the limit their times.
func (m *machine) planHeld() {
	held := m.heldByRate()
	if len(held) == 0 {
		return
	}
	for n, at := range m.slots(len(held)) {
		m.Inbox[held[n]].NextRetryAt = at
	}
}

// tellRate informs the operator once that mails wait for the hour to hold fewer, and
// forgets that it did once no mail waits and the hour has room.
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

// applyRation counts a mail of a history line against the limit.
func (m *machine) applyRation(l Line) {
	msg := l.Message
	switch {
	case l.What != "" || !msg.Operator || msg.Source != Mail:
	case msg.overRate():
		m.RateTold = latest(m.RateTold, l.At)
	case msg.Status == Queued:
		m.Accepted = append(m.Accepted, l.At)
	}
}
