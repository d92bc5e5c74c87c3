package state

import (
	"slices"
	"time"
)

// ack tells the operator that the agent is standing by.
func (m *machine) ack(thread Thread) {
	if !m.policy.HasMail || !m.policy.Ack || m.Halted() || len(m.Acks) >= mailsAnHour {
		return
	}
	m.Acks = append(m.Acks, m.now)
	m.queue(Effect{Kind: Ack, Channel: ByMail, To: m.policy.Operator, Thread: thread})
}

// quiet tells the operator that the agent goes back to sleep.
func (m *machine) quiet(from Phase) {
	on := m.policy.QuietPrep
	if from == ACTIVE {
		on = m.policy.QuietActive
	}
	if !m.policy.HasMail || !on || m.Halted() || len(m.Quiets) >= mailsAnHour {
		return
	}
	m.Quiets = append(m.Quiets, m.now)
	m.queue(Effect{Kind: Quiet, Channel: ByMail, To: m.policy.Operator, From: from, Thread: m.Thread})
}

// notice tells the operator of a fault.
func (m *machine) notice(text string) {
	if !m.policy.HasMail || !m.policy.Notices {
		return
	}
	m.queue(Effect{Kind: Notice, Channel: ByMail, To: m.policy.Operator, Text: text})
}

// queue adds an effect to the outbox, under an id of its own unless it has one,
// which it returns.
func (m *machine) queue(e Effect) (id string) {
	if e.ID == "" {
		e.ID = m.mint(string(e.Kind))
	}
	e.Created = m.now
	if life := e.Kind.life(); life > 0 {
		e.Expires = m.now.Add(life)
	}
	m.Outbox = append(m.Outbox, e)
	m.line(Line{Kind: LineEffect, ID: e.ID, What: "queued", Effect: &e})
	return e.ID
}

// DueEffects are the effects that may be performed now, in order: of each
// channel and recipient only the first, so that order holds and one that
// backs off lets the others pass (DESIGN 3). What needs a credential that was
// refused in this cycle waits for the next, and is no reason for one.
func (s State) DueEffects(now time.Time) []Effect {
	type lane struct {
		channel Channel
		to      string
	}
	taken := map[lane]bool{}
	var due []Effect
	for _, e := range s.Outbox {
		if s.Halted() && e.Kind != Answer || e.spent() {
			continue
		}
		l := lane{e.Channel, e.To}
		if taken[l] || s.Refused(e.Channel.credential()) {
			continue
		}
		taken[l] = true
		if !now.Before(e.NotBefore) {
			due = append(due, e)
		}
	}
	return due
}

// row finds an effect by id.
func (m *machine) row(id string) (int, bool) {
	i := slices.IndexFunc(m.Outbox, func(e Effect) bool { return e.ID == id })
	return i, i >= 0
}

// strike ends a row.
func (m *machine) strike(i int, what, reason string) {
	e := m.Outbox[i]
	m.Outbox = slices.Delete(m.Outbox, i, i+1)
	m.line(Line{Kind: LineDelivery, ID: e.ID, What: what, Reason: reason, TurnID: e.TurnID})
}

// Sending: the final dot of an effect is about to leave; until Sent or
// SendFailed follows its fate is unknown.
type Sending struct{ ID string }

// apply is recorded before the final dot: from here on the effect may have
// happened.
func (e Sending) apply(m *machine) {
	i, ok := m.row(e.ID)
	if !ok {
		return
	}
	row := &m.Outbox[i]
	row.Copies++
	row.Unknown = true
	row.Sending = true
}

// leftSending finds, at the start of a cycle, what a killed one was about to
// send: its fate stays unknown. Effects are performed under cycle.lock alone,
// so nobody else is at it.
func (m *machine) leftSending() {
	for i := range m.Outbox {
		if row := &m.Outbox[i]; row.Sending {
			row.Sending = false
			row.Reason = "its sender was killed before the answer came"
		}
	}
}

// Sent: the effect was accepted by its server.
type Sent struct{ ID string }

func (e Sent) apply(m *machine) {
	i, ok := m.row(e.ID)
	if !ok {
		return
	}
	m.delivered(m.Outbox[i])
	m.strike(i, "sent", "")
	m.tellings(e.ID, func(t *Telling) { t.Sent = true })
}

// delivered restarts the count of silence when the operator got his answer.
func (m *machine) delivered(e Effect) {
	if e.Kind == Reply && e.Channel == ByMail {
		m.LastDelivery = m.now
	}
}

// SendFailed: it was not, or nobody knows.
type SendFailed struct {
	ID         string
	Permanent  bool
	Unknown    bool // broke after the final dot
	Refused    bool // not the effect was, but its credential: the next cycle tries again
	Reason     string
	RetryAfter time.Duration // as the server asked; 0 = our own back-off
}

// apply backs off, or gives up what can never arrive. A refusal after
// the dot is an answer: that copy did not arrive.
func (e SendFailed) apply(m *machine) {
	i, ok := m.row(e.ID)
	if !ok {
		return
	}
	row := &m.Outbox[i]
	if row.Sending && !e.Unknown {
		row.Copies--
	}
	row.Unknown = e.Unknown
	row.Sending = false
	row.Reason = e.Reason
	row.Refused = e.Refused
	if e.Refused {
		return
	}
	row.Attempts++
	if e.Permanent {
		m.undeliverable(i)
		return
	}
	wait := backoff(row.Attempts)
	if e.RetryAfter > 0 {
		wait = min(e.RetryAfter, longestBackoff)
	}
	row.NotBefore = m.now.Add(wait)
}

// Redacted implements [Redactable].
func (e SendFailed) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

// spent says whether no further copy may be sent: the one that left may have
// arrived, and is worthless twice, or there were enough of them.
func (e Effect) spent() bool {
	return e.Unknown && e.Kind.perishable() || e.Copies >= maxCopies
}

// expire drops what is worthless by now and gives up what waited too long. What
// is on its way right now is left alone: its answer will tell.
func (m *machine) expire() {
	for i := 0; i < len(m.Outbox); {
		row := m.Outbox[i]
		switch {
		case row.Sending:
			i++
		case row.Unknown && row.Kind.perishable():
			m.strike(i, "unknown", row.Reason)
		case row.Kind.life() > 0 && !m.now.Before(row.Expires), row.Kind == Challenge && !m.asksBy(row.ID):
			m.strike(i, "expired", row.Reason)
		case row.spent(), row.Waited >= giveUpAfter && (row.Attempts > 0 || row.Refused):
			m.undeliverable(i)
		default:
			i++
		}
	}
}

// undeliverable ends a row and tells the operator by another channel: what a
// mail server would not take through a peer, what the mesh would not take by
// mail. Of words that tell of something, none are made in turn: they go to the
// next who may be asked, or are counted.
func (m *machine) undeliverable(i int) {
	row := m.Outbox[i]
	if row.isWord() && !row.Refused && !row.Unknown && m.fallOver(row) {
		return
	}
	m.Undeliverable++
	m.strike(i, "undeliverable", row.Reason)
	switch row.Kind {
	case Reply, Answer, Question, Post:
		m.say(Effect{
			Text:   "undeliverable: " + row.ID + " to " + row.To + ": " + row.Reason,
			Thread: m.subject("undeliverable"),
			Tried:  m.inVain(row),
		})
	case Alarm, Relay, Notice:
		m.lapse(row)
	}
}

// inVain are those whom word of an undeliverable effect will not reach either.
func (m *machine) inVain(row Effect) []string {
	if row.Channel == ByMail {
		return []string{row.To, m.policy.Operator}
	}
	return []string{row.To}
}

// lapse has an outage told anew if its word was given up only for its age, and
// not if it may have arrived.
func (m *machine) lapse(row Effect) {
	switch {
	case row.Unknown:
		m.tellings(row.ID, func(t *Telling) { t.Sent = true })
	case row.Waited >= giveUpAfter:
		m.retell(row.ID, "")
	}
}

// stillWorking makes the one mail that a long turn owes (DESIGN 5).
func (m *machine) stillWorking() {
	if m.Turn.Status != HeadRunning || m.Turn.Working || m.now.Sub(m.Turn.Since) < workingAfter {
		return
	}
	m.Turn.Working = true
	i, ok := m.message(m.Turn.Key)
	if !ok || !m.Inbox[i].Operator || m.Inbox[i].Source != Mail {
		return
	}
	if m.policy.HasMail && m.policy.Working && !m.Halted() {
		m.queue(Effect{Kind: Working, Channel: ByMail, To: m.Inbox[i].From, TurnID: m.Turn.TurnID, Thread: m.Thread})
	}
}

// workingAfter is how long a turn runs before the operator hears of it.
const workingAfter = 2 * time.Minute

// Effect returns the outbox row with this id.
func (s State) Effect(id string) (Effect, bool) {
	i := slices.IndexFunc(s.Outbox, func(e Effect) bool { return e.ID == id })
	if i < 0 {
		return Effect{}, false
	}
	return s.Outbox[i], true
}

// TookNudge says whether the nudge file with this key was committed.
func (s State) TookNudge(key string) bool { return slices.Contains(s.Nudges, key) }
