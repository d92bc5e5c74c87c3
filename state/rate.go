package state

import (
	"fmt"
	"slices"
	"time"
)

// Hourly holds the times of what is limited within an hour or a minute.
type Hourly struct {
	Acks          []time.Time     `json:"acks,omitempty"`           // made within the last hour
	Quiets        []time.Time     `json:"quiets,omitempty"`         // made within the last hour
	Accepted      []time.Time     `json:"accepted,omitempty"`       // mails of the operator admitted within the last hour
	Programs      []time.Time     `json:"programs,omitempty"`       // messages of programs admitted within the last hour
	Alarms        []time.Time     `json:"alarms,omitempty"`         // sent to the keymaster within the last hour
	Posts         []time.Time     `json:"posts,omitempty"`          // messages that left within the last minute through a mesh without a pace of its own
	OperatorAsked []AskedOperator `json:"operator_asked,omitempty"` // questions of the last hour

	Relays   []Relaying `json:"relays,omitempty"`   // for peers within the last hour
	Rung     []Ringing  `json:"rung,omitempty"`     // acks of nudges through the mesh within the last hour
	WokenBy  string     `json:"woken_by,omitempty"` // agent whose mesh nudge woke us, until a message follows; with ack_peers off also whose message woke us
	RateTold time.Time  `json:"rate_told,omitzero"` // when the operator was told that mails wait because of the hourly limit
}

func (h Hourly) clone() Hourly {
	h.Acks = slices.Clone(h.Acks)
	h.Quiets = slices.Clone(h.Quiets)
	h.Accepted = slices.Clone(h.Accepted)
	h.Programs = slices.Clone(h.Programs)
	h.Alarms = slices.Clone(h.Alarms)
	h.Posts = slices.Clone(h.Posts)
	h.OperatorAsked = slices.Clone(h.OperatorAsked)
	h.Relays = slices.Clone(h.Relays)
	h.Rung = slices.Clone(h.Rung)
	return h
}

func (h *Hourly) clampTimes(c clamp) {
	for _, times := range [][]time.Time{h.Acks, h.Quiets, h.Accepted, h.Programs, h.Alarms, h.Posts} {
		c.pastAll(times)
	}
	for i := range h.OperatorAsked {
		c.past(&h.OperatorAsked[i].At)
	}
	for i := range h.Relays {
		c.past(&h.Relays[i].At)
	}
	for i := range h.Rung {
		c.past(&h.Rung[i].At)
	}
	c.past(&h.RateTold)
}

// prune forgets the entries of more than an hour ago, and the posts of more than a minute ago.
func (h *Hourly) prune(now time.Time) {
	hourAgo := now.Add(-time.Hour)
	for _, times := range []*[]time.Time{&h.Acks, &h.Quiets, &h.Accepted, &h.Programs, &h.Alarms} {
		*times = after(*times, hourAgo)
	}
	h.Posts = after(h.Posts, now.Add(-time.Minute))
	h.OperatorAsked = slices.DeleteFunc(h.OperatorAsked, func(a AskedOperator) bool { return !a.At.After(hourAgo) })
	h.Relays = slices.DeleteFunc(h.Relays, func(r Relaying) bool { return !r.At.After(hourAgo) })
	h.Rung = slices.DeleteFunc(h.Rung, func(r Ringing) bool { return !r.At.After(hourAgo) })
}

// after returns the times later than t. It reuses the slice.
func after(times []time.Time, t time.Time) []time.Time {
	kept := times[:0]
	for _, u := range times {
		if u.After(t) {
			kept = append(kept, u)
		}
	}
	return kept
}

// OverRate is the Reason of a mail that waits because too many came within an hour.
const OverRate = "over the limit of mails an hour, [budget] mails_an_hour"

// OverEventRate is the Reason of a message of a program that waits because too many came within an
// hour.
const OverEventRate = "over the limit of events an hour, [budget] events_an_hour"

// overRate reports whether the message waits because of the hourly limit of its kind.
func (msg Message) overRate() bool {
	return msg.Status == Deferred && (msg.Reason == OverRate || msg.Reason == OverEventRate)
}

// rateLimit is how many messages of one kind may run within an hour.
type rateLimit struct {
	reason   string       // of a message above the limit
	limit    int          // 0 means unlimited
	admitted *[]time.Time // when the last ones were admitted
}

// rateLimits returns the limits of the operator's mails and of programs.
func (m *machine) rateLimits() [2]rateLimit {
	return [2]rateLimit{{OverRate, m.policy.Rate, &m.Accepted}, {OverEventRate, m.policy.EventRate, &m.Programs}}
}

// rateLimitOf returns the limit that a message counts against. It returns false if the message does
// not count.
func (m *machine) rateLimitOf(msg Message) (rateLimit, bool) {
	all := m.rateLimits()
	switch {
	case m.isRateLimited(msg):
		return all[0], true
	case msg.Cause() == CauseEvent && msg.Source == EventSource && m.policy.Turns && m.policy.EventRate > 0 && !m.admitted:
		return all[1], true
	}
	return rateLimit{}, false
}

// isRateLimited reports whether the message counts against the limit on mails: it costs money, and
// anybody can send it in the operator's name, by mistake or by a rule of theirs. A message that a
// person let in, by hand or by an answer, does not count (docs/design.md, "The inbox").
func (m *machine) isRateLimited(msg Message) bool {
	return msg.Operator && msg.Source == Mail && m.policy.Turns && m.policy.Rate > 0 && !m.admitted
}

// applyAdmitted applies an event that a person let in.
func (m *machine) applyAdmitted(e Event) {
	before := m.admitted
	m.admitted = true
	e.apply(m)
	m.admitted = before
}

// limitRate defers a message above the limit of its kind. It never rejects one.
func (m *machine) limitRate(msg *Message) {
	r, limited := m.rateLimitOf(*msg)
	if !limited {
		return
	}
	held := m.deferredBy(r)
	if len(*r.admitted) < r.limit && len(held) == 0 {
		*r.admitted = append(*r.admitted, m.now)
		return
	}
	slots := r.slots(len(held) + 1)
	msg.Status, msg.Reason, msg.NextRetryAt = Deferred, r.reason, slots[len(held)]
}

// deferredBy returns the inbox indexes of the messages above a limit.
func (received *Received) deferredBy(r rateLimit) (held []int) {
	for i := range received.Inbox {
		// Steps look here several times, and most rows only wait for their turn.
		if msg := &received.Inbox[i]; msg.Status == Deferred && msg.Reason == r.reason {
			held = append(held, i)
		}
	}
	return held
}

// mailsOverRate returns the inbox indexes of the mails above the limit.
func (m *machine) mailsOverRate() []int { return m.deferredBy(m.rateLimits()[0]) }

// slots returns when the next n messages may run, if the limit is used up. Each runs an hour after
// the message that is limit places before it.
func (r rateLimit) slots(n int) []time.Time {
	times := slices.Clone(*r.admitted)
	for range n {
		times = append(times, times[len(times)-r.limit].Add(time.Hour))
	}
	return times[len(*r.admitted):]
}

// admitDeferred queues, in order, the messages that the hourly limits allow now.
func (m *machine) admitDeferred() {
	for _, r := range m.rateLimits() {
		held := m.deferredBy(r)
		unlimited := r.limit <= 0 || !m.policy.Turns
		for len(held) > 0 && (unlimited || len(*r.admitted) < r.limit) {
			msg := &m.Inbox[held[0]]
			msg.Status, msg.Reason, msg.NextRetryAt = Queued, "", time.Time{}
			*r.admitted = append(*r.admitted, m.now)
			held = held[1:]
		}
	}
	m.planDeferred()
}

// planDeferred sets the times of the messages above a limit.
func (m *machine) planDeferred() {
	for _, r := range m.rateLimits() {
		held := m.deferredBy(r)
		if len(held) == 0 {
			continue
		}
		for n, at := range r.slots(len(held)) {
			m.Inbox[held[n]].NextRetryAt = at
		}
	}
}

// tellRateLimit tells the operator once that mails wait because of the hourly limit. It may tell
// them again after the waiting mails have run and the limit has room.
func (m *machine) tellRateLimit() {
	m.planDeferred()
	held := m.mailsOverRate()
	switch {
	case len(held) == 0 && len(m.Accepted) < max(1, m.policy.Rate):
		m.RateTold = time.Time{}
	case len(held) > 0 && m.RateTold.IsZero():
		m.RateTold = m.now
		first, last := m.Inbox[held[0]], m.Inbox[held[len(held)-1]]
		m.notice(fmt.Sprintf("%d of your mails must wait, because more than %d came within an hour ([budget] mails_an_hour). They run in order: the next at %s, the last at %s. To run one now: `agentstateloop inbox retry %s`; `agentstateloop inbox list` shows the others.",
			len(held), m.policy.Rate, utc(first.NextRetryAt), utc(last.NextRetryAt), first.Key))
	}
}

// countAgainstLimit counts the message of a history line against the limit of its kind.
func (h *Hourly) countAgainstLimit(l Line) {
	msg := l.Message
	switch {
	case l.What != "":
	case msg.Operator && msg.Source == Mail && msg.overRate():
		h.RateTold = latest(h.RateTold, l.At)
	case msg.Operator && msg.Source == Mail && msg.Status == Queued:
		h.Accepted = append(h.Accepted, l.At)
	case msg.Cause() == CauseEvent && msg.Status == Queued:
		h.Programs = append(h.Programs, l.At)
	}
}
