package state

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Prompts by the clock (docs/design.md, "Prompts by the clock"). The configuration has their texts
// and times. The state has a row for each prompt with the time of its next firing. A firing is a
// message of the source Clock.

// PromptPolicy is a prompt of the configuration.
type PromptPolicy struct {
	Name    string
	At      string        // its times, in the syntax of crontab(5)
	CatchUp time.Duration // how late it may run if the machine was off at its time
	Asks    bool          // its program is asked whether there is something to do

	// Next returns the first time after the given one, by the clocks of the zone, or the zero time.
	// It is pure.
	Next func(after time.Time, zone *time.Location) time.Time
}

// TimedPrompt is the row of the next firing of a prompt.
type TimedPrompt struct {
	Name string    `json:"name"`
	At   string    `json:"at"`   // as in PromptPolicy
	Next time.Time `json:"next"` // the first time without a result yet

	// Done are the last times with a result. Seen has their keys as well, but not for ever: a clock
	// that was far ahead may have made it forget them.
	Done []time.Time `json:"done,omitempty"`

	// AskedBy is the id of the process that asks the program of the prompt whether there is
	// something to do. It may ask until AskedUntil.
	AskedBy    string    `json:"asked_by,omitempty"`
	AskedUntil time.Time `json:"asked_until,omitzero"`

	// Fails is why the last firing failed: its program or its file cannot be used. Since is when
	// that began.
	Fails string    `json:"fails,omitempty"`
	Since time.Time `json:"since,omitzero"`
}

// Firing is one firing of a prompt, due at At.
type Firing struct {
	Name string
	At   time.Time
	Asks bool // its program must be asked first
}

// maxDone is how many times a row remembers.
const maxDone = 16

// PromptLease is how long one process may ask the program of a prompt.
const PromptLease = 2 * time.Minute

// PromptSlack is how late a firing may be and still count as in time, because a poll or another
// turn may be running.
const PromptSlack = 15 * time.Minute

// PromptKey returns the key of the message of a firing. Each process that makes the message
// computes the same key.
func PromptKey(name string, at time.Time) string {
	return "prompt:" + name + ":" + at.UTC().Format("2006-01-02T15:04Z")
}

// prompt returns the configuration of the prompt with the name and the times of a row.
func (p Policy) prompt(row TimedPrompt) (PromptPolicy, bool) {
	i := slices.IndexFunc(p.Prompts, func(c PromptPolicy) bool { return c.Name == row.Name && c.At == row.At })
	if i < 0 {
		return PromptPolicy{}, false
	}
	return p.Prompts[i], true
}

// next returns the first time after t at which a prompt is due.
func (p Policy) next(c PromptPolicy, t time.Time) time.Time { return c.Next(t, p.Location).UTC() }

// newest returns the last time of a row that is not after now and has no result, or the zero time.
// A row has times with a result ahead after the clock was set back.
func (r *Reading) newest(p Policy, c PromptPolicy, row TimedPrompt, now time.Time) time.Time {
	const hour = time.Hour
	for back := hour; ; back *= 4 {
		from := now.Add(-back)
		if from.Before(row.Next) {
			from = row.Next.Add(-time.Second)
		}
		last := time.Time{}
		for at := p.next(c, from); !at.IsZero() && !at.After(now); at = p.next(c, at) {
			if !r.hasResult(row, at) {
				last = at
			}
		}
		switch {
		case !last.IsZero():
			return last
		case !from.Before(row.Next):
			continue
		case !r.hasResult(row, row.Next):
			return row.Next // a time of another zone
		default:
			return time.Time{}
		}
	}
}

// tooLate reports whether it is too late to make the firing of at.
func (p Policy) tooLate(c PromptPolicy, at, now time.Time) bool {
	return now.Sub(at) > c.CatchUp+max(p.PromptSlack, PromptSlack)
}

// PromptsHeld returns the reason that holds back every prompt by the clock, or "".
func (s State) PromptsHeld(p Policy, now time.Time) string {
	switch tier := s.Tier(p, now); {
	case s.Halted():
		return HaltedReason
	case tier == TierCritical || tier == TierDead:
		return "money is short (" + string(tier) + ")"
	}
	return ""
}

// DuePrompts returns the firings that are due at now, the newest of each prompt.
func (s State) DuePrompts(p Policy, now time.Time) (due []Firing) {
	if len(s.Prompts) == 0 || s.PromptsHeld(p, now) != "" {
		return nil
	}
	for _, row := range s.Prompts {
		c, ok := p.prompt(row)
		if !ok || row.Next.IsZero() || now.Before(row.Next) || now.Before(row.AskedUntil) {
			continue
		}
		if at := s.newest(p, c, row, now); !at.IsZero() && !p.tooLate(c, at, now) {
			due = append(due, Firing{Name: row.Name, At: at, Asks: c.Asks})
		}
	}
	return due
}

// promptTimes returns the times at which prompts are due, without those that are held back at their
// time.
func (s State) promptTimes(p Policy) (times []time.Time) {
	for _, row := range s.Prompts {
		if _, ok := p.prompt(row); !ok || row.Next.IsZero() {
			continue
		}
		if at := latest(row.Next, row.AskedUntil); s.PromptsHeld(p, at) == "" {
			times = append(times, at)
		}
	}
	return times
}

// timedPrompt returns the row of a prompt, or nil.
func (m *machine) timedPrompt(name string) *TimedPrompt {
	i := slices.IndexFunc(m.Prompts, func(row TimedPrompt) bool { return row.Name == name })
	if i < 0 {
		return nil
	}
	return &m.Prompts[i]
}

// promptLine records the result of a prompt, with its row.
func (m *machine) promptLine(row TimedPrompt, what Word, key, reason string) {
	m.line(Line{Kind: LinePrompt, What: what, Key: key, From: row.Name, Reason: reason, Prompt: &row})
}

// planPrompts compares the rows with the configuration. A new prompt, or one with other times,
// begins with its next time. A time that passed while the prompt was not held back, and for which
// it is too late, is recorded as missed.
func (m *machine) planPrompts() {
	for _, row := range slices.Clone(m.Prompts) {
		if !slices.ContainsFunc(m.policy.Prompts, func(c PromptPolicy) bool { return c.Name == row.Name }) {
			m.Prompts = slices.DeleteFunc(m.Prompts, func(r TimedPrompt) bool { return r.Name == row.Name })
			m.promptLine(row, WordRemoved, "", "")
		}
	}
	for _, c := range m.policy.Prompts {
		row := m.timedPrompt(c.Name)
		switch {
		case row == nil:
			m.Prompts = append(m.Prompts, TimedPrompt{Name: c.Name, At: c.At})
			m.planNext(m.timedPrompt(c.Name), c)
		case row.At != c.At:
			row.At, row.AskedBy, row.AskedUntil = c.At, "", time.Time{}
			m.planNext(row, c)
		case m.now.Before(row.Next) || row.Next.IsZero():
			m.planNext(row, c) // the clock was set back, or the machine has another zone
		case m.PromptsHeld(m.policy, m.now) == "" && !m.now.Before(row.AskedUntil):
			at := m.newest(m.policy, c, *row, m.now)
			switch {
			case at.IsZero():
			case !m.policy.tooLate(c, at, m.now):
				continue
			default:
				row.noteDone(at) // a clock that is set back shows it again
				m.promptLine(*row, WordMissed, PromptKey(c.Name, at), fmt.Sprintf("it was due at %s, and catch_up is %v", m.localTime(at), shortDuration(c.CatchUp)))
			}
			m.planNext(row, c)
		}
	}
	m.endWaitingPrompts()
}

// planNext sets the next time of a row: the first one after now without a result.
func (m *machine) planNext(row *TimedPrompt, c PromptPolicy) {
	next := m.policy.next(c, m.now)
	for !next.IsZero() && m.hasResult(*row, next) {
		next = m.policy.next(c, next)
	}
	if next.Equal(row.Next) {
		return
	}
	row.Next = next
	m.promptLine(*row, WordNext, "", "")
}

// noteDone records that a time has a result.
func (row *TimedPrompt) noteDone(at time.Time) {
	row.Done = append(slices.Clone(row.Done), at.UTC())
	row.Done = row.Done[max(0, len(row.Done)-maxDone):]
}

// hasResult reports whether a time of a prompt has a result.
func (r *Reading) hasResult(row TimedPrompt, at time.Time) bool {
	_, known := r.Seen[PromptKey(row.Name, at)]
	return known || slices.ContainsFunc(row.Done, at.Equal)
}

// localTime formats a time by the clocks of the machine.
func (m *machine) localTime(t time.Time) string {
	if loc := m.policy.Location; loc != nil {
		t = t.In(loc)
	}
	return t.Format("2006-01-02 15:04")
}

// shortDuration formats a duration without trailing zeros, such as 24h.
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// waitsByClock reports whether the message is a waiting firing of the clock that no person has
// asked for.
func (msg Message) waitsByClock() bool {
	return msg.Source == Clock && !msg.ByHand && msg.TurnID == "" && !msg.IsFollowUp()
}

// endWaitingPrompts ends the waiting firings whose prompt is not configured any more, or for which
// it is too late.
func (m *machine) endWaitingPrompts() {
	for _, msg := range slices.Clone(m.Inbox) {
		if !msg.waitsByClock() {
			continue
		}
		i := slices.IndexFunc(m.policy.Prompts, func(c PromptPolicy) bool { return c.Name == msg.From })
		switch {
		case i < 0:
			m.skip(msg, "its prompt is not configured any more")
		case m.policy.tooLate(m.policy.Prompts[i], msg.At, m.now):
			m.skip(msg, fmt.Sprintf("it was due at %s, and catch_up is %v", m.localTime(msg.At), shortDuration(m.policy.Prompts[i].CatchUp)))
		}
	}
}

// PromptAsked reports that the process ID is about to ask the program of a prompt whether there is
// something to do. After the commit, the row names the process that may ask.
type PromptAsked struct{ Name, ID string }

func (e PromptAsked) apply(m *machine) {
	row := m.timedPrompt(e.Name)
	due := slices.ContainsFunc(m.DuePrompts(m.policy, m.now), func(f Firing) bool { return f.Name == e.Name })
	if row == nil || !due {
		return
	}
	row.AskedBy, row.AskedUntil = e.ID, m.now.Add(PromptLease)
}

// Prompted reports the result of a prompt at its time, or that a person wants it now.
type Prompted struct {
	Name string
	At   time.Time // when it was due
	ID   string    // of the process that asked its program; "" without a program
	Hand string    // set if a person wants it: the key of the message

	Skipped string // why there is nothing to do, or ""
	Failed  string // why it cannot be made, or ""

	Message Message // otherwise: Payload, Sum, Size, Title and Kind
}

// apply makes the message of a firing once. It replaces a waiting message of the same prompt, so
// that the agent gets the prompt once.
func (e Prompted) apply(m *machine) {
	if e.Hand != "" {
		if !m.seen(e.Hand) {
			m.operatorHeard()
			e.Message.ByHand = true
			m.addPrompt(e, e.Hand, m.now)
		}
		return
	}
	row := m.timedPrompt(e.Name)
	if row == nil || row.Next.IsZero() || e.At.Before(row.Next) || e.At.After(m.now) || row.AskedBy != e.ID && m.now.Before(row.AskedUntil) {
		return
	}
	if m.PromptsHeld(m.policy, m.now) != "" {
		return // it was made before the prompts were held back, and is made again
	}
	c, ok := m.policy.prompt(*row)
	if !ok {
		return
	}
	key := PromptKey(e.Name, e.At)
	fresh := !m.hasResult(*row, e.At)
	m.noteSeen(key)
	row.noteDone(e.At)
	row.AskedBy, row.AskedUntil, row.Next = "", time.Time{}, m.policy.next(c, e.At)
	failedBefore := row.Fails != ""
	switch {
	case !fresh:
		m.promptLine(*row, WordNext, key, "")
	case e.Failed != "":
		if row.Fails = e.Failed; !failedBefore {
			row.Since = m.now
			m.notice(fmt.Sprintf("The prompt %q, due at %s, did not run: %s. I report this once; it is tried again at each of its times, next at %s. `agentstateloop doctor` checks it.",
				e.Name, m.localTime(e.At), e.Failed, m.localTime(row.Next)))
		}
		m.promptLine(*row, WordFailed, key, e.Failed)
	case e.Skipped != "":
		row.Fails, row.Since = "", time.Time{}
		m.promptLine(*row, WordSkipped, key, e.Skipped)
	default:
		row.Fails, row.Since = "", time.Time{}
		m.promptLine(*row, WordNext, key, "")
		for _, msg := range slices.Clone(m.Inbox) {
			if msg.waitsByClock() && msg.From == e.Name {
				m.skip(msg, "replaced by a later one")
			}
		}
		m.addPrompt(e, key, e.At)
	}
}

// addPrompt puts the message of a firing into the inbox. It wakes nothing and does not count as
// hearing the operator.
func (m *machine) addPrompt(e Prompted, key string, at time.Time) {
	m.noteSeen(key)
	msg := e.Message
	msg.Key, msg.Source, msg.From, msg.Operator = key, Clock, e.Name, true
	msg.At, msg.Observed, msg.NextRetryAt = happened(at.UTC(), m.now), m.now, happened(at.UTC(), m.now)
	msg.Trace = m.mintTrace(key)
	m.trace = msg.Trace
	m.Arrivals++
	msg.Seq, msg.Status = m.Arrivals, Queued
	m.Inbox = append(m.Inbox, msg)
	m.Asleep = false
	m.line(Line{Kind: LineMessage, Key: key, Source: Clock, From: msg.From, Message: &msg})
	m.enqueued(msg)
}

// Redacted implements [Redactable].
func (e Prompted) Redacted(redact func(string) string) Event {
	e.Skipped, e.Failed = redact(e.Skipped), redact(e.Failed)
	return e
}

// applyPromptLine restores the row of a prompt line.
func (m *machine) applyPromptLine(l Line) {
	m.noteSeen(l.Key)
	m.Prompts = slices.DeleteFunc(m.Prompts, func(row TimedPrompt) bool { return row.Name == l.From })
	if l.What != WordRemoved && l.Prompt != nil {
		m.Prompts = append(m.Prompts, *l.Prompt)
	}
}

// The kinds of messages by the clock.
const (
	KindAlways = "always" // the answer is always mailed
	KindSaid   = "said"   // the answer is mailed unless it is empty or NOTHING
)

// MayBeSilent reports whether the turn of the message may end without a word to the operator.
func (msg Message) MayBeSilent() bool {
	return msg.Source == Self || msg.Source == Clock && msg.Kind == KindSaid
}

// ByItself reports whether the agent or the clock planned the message, so that it has no sender.
func (msg Message) ByItself() bool { return msg.Source == Self || msg.Source == Clock }
