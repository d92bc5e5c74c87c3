package state

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Hooks hear of events (docs/design.md, "Hooks"). Their rows have an outbox of their own. An event
// about a hook never causes another one.

// HookQueue is the outbox of the hooks. It is apart from the other, so that a hook cannot hold up a
// mail.
type HookQueue struct {
	HookCalls    []Effect               `json:"hook_calls,omitempty"`    // in order of creation
	FailingHooks map[string]FailingHook `json:"failing_hooks,omitempty"` // by name
}

func (q HookQueue) clone() HookQueue {
	q.HookCalls, q.FailingHooks = slices.Clone(q.HookCalls), maps.Clone(q.FailingHooks)
	return q
}

func (q *HookQueue) clampTimes(c clamp) {
	for i := range q.HookCalls {
		c.past(&q.HookCalls[i].Created)
		c.deadline(&q.HookCalls[i].NotBefore, maxBackoff)
	}
	for name, f := range q.FailingHooks {
		c.past(&f.Since, &f.Told)
		q.FailingHooks[name] = f
	}
}

const (
	maxHookCalls  = 200            // rows that wait for one hook; the oldest is dropped
	hookGiveUp    = 24 * time.Hour // time lived through until a row is given up
	hookToldEvery = 24 * time.Hour // pause between two notices about the same hook
)

// FailingHook records a hook from its first failure until it takes an event. A hook that works
// again has a zero Since. It stays until the operator was told about its lost events and may be
// told again.
type FailingHook struct {
	Since  time.Time `json:"since,omitzero"`
	Reason string    `json:"reason,omitempty"` // of the last failure
	Lost   int       `json:"lost,omitempty"`   // events that were given up
	After  uint64    `json:"after,omitempty"`  // the serial before the first lost event
	Untold int       `json:"untold,omitempty"` // lost events that the operator has not heard of
	Told   time.Time `json:"told,omitzero"`    // when the operator was told about lost events
}

// Fails reports whether the hook did not take the last event.
func (f FailingHook) Fails() bool { return !f.Since.IsZero() }

// now describes the present state of the hook in words.
func (f FailingHook) now(name string) string {
	if !f.Fails() {
		return "It works again"
	}
	return fmt.Sprintf("It has been failing since %s; `agentstateloop status` shows when it works again, and `agentstateloop hook test %s` tries it now", utc(f.Since), name)
}

// announce queues the announcements of this step for each hook.
func (m *machine) announce() {
	if len(m.policy.Hooks) == 0 {
		return
	}
	for _, l := range slices.Clone(m.Lines) {
		a, ok := l.Announcement(m.Agent)
		if !ok {
			continue
		}
		for _, h := range m.policy.Hooks {
			if Hears(h.On, a.Event) {
				m.queueHookCall(h.Name, a)
			}
		}
	}
}

func (m *machine) queueHookCall(hook string, a Announcement) {
	e := Effect{ID: m.mint(string(HookCall)), Kind: HookCall, Channel: ByHook, To: hook, TurnID: a.Data.TurnID, Created: m.now, Announces: &a}
	if i := m.surplusHookCall(hook); i >= 0 {
		m.loseHookCall(i, WordDropped, fmt.Sprintf("more than %d events wait for the hook", maxHookCalls))
	}
	m.Numbers.HookCalls++
	e.Number = m.Numbers.HookCalls
	m.HookCalls = append(m.HookCalls, e)
	m.line(Line{Kind: LineEffect, ID: e.ID, What: WordQueued, Effect: &e})
}

// surplusHookCall returns the index of the oldest row of a hook whose queue is full, or -1.
func (q *HookQueue) surplusHookCall(hook string) int {
	first, n := -1, 0
	for i, e := range q.HookCalls {
		if e.To != hook {
			continue
		}
		if n++; first < 0 {
			first = i
		}
	}
	if n < maxHookCalls {
		return -1
	}
	return first
}

// DueHookCalls returns the rows whose hook may be called now: only the first of each hook, so that
// order holds. HALT does not hold them back: it stops the work of the agent, and the operator hears
// of that through the hook.
func (q HookQueue) DueHookCalls(now time.Time) []Effect {
	return slices.DeleteFunc(q.firstOfHooks(), func(e Effect) bool { return now.Before(e.NotBefore) })
}

// firstOfHooks returns the first row of each hook.
func (q HookQueue) firstOfHooks() []Effect {
	taken := map[string]bool{}
	var first []Effect
	for _, e := range q.HookCalls {
		if !taken[e.To] {
			taken[e.To] = true
			first = append(first, e)
		}
	}
	return first
}

func (q HookQueue) hookCallIndex(id string) int {
	return slices.IndexFunc(q.HookCalls, func(e Effect) bool { return e.ID == id })
}

// endHookCall removes a row and records how it ended.
func (m *machine) endHookCall(i int, what Word, reason string) {
	e := m.HookCalls[i]
	m.HookCalls = slices.Delete(m.HookCalls, i, i+1)
	m.line(Line{Kind: LineDelivery, ID: e.ID, To: e.To, What: what, Reason: reason, TurnID: e.TurnID})
}

// loseHookCall is endHookCall for an event that never reaches its hook.
func (m *machine) loseHookCall(i int, what Word, reason string) {
	row := m.HookCalls[i]
	f, why := m.failingHook(row.To), reason
	if row.Announces != nil {
		why = row.Announces.Event + ": " + reason
		if f.Lost == 0 {
			f.After = max(row.Announces.Serial, 1) - 1
		}
	}
	m.endHookCall(i, what, why)
	f.Lost++
	f.Untold++
	f.Reason = cmp.Or(f.Reason, reason)
	m.setFailingHook(row.To, f)
}

func (m *machine) failingHook(name string) FailingHook {
	f := m.FailingHooks[name]
	if !f.Fails() {
		f.Since = m.now
	}
	return f
}

func (q *HookQueue) setFailingHook(name string, f FailingHook) {
	if q.FailingHooks == nil {
		q.FailingHooks = map[string]FailingHook{}
	}
	q.FailingHooks[name] = f
}

// HookTook reports that a hook took an event.
type HookTook struct{ ID string }

func (e HookTook) apply(m *machine) {
	i := m.hookCallIndex(e.ID)
	if i < 0 {
		return
	}
	row := m.HookCalls[i]
	m.endHookCall(i, WordSent, "")
	if f, failed := m.FailingHooks[row.To]; failed {
		if f.Since = (time.Time{}); f.Untold == 0 {
			f = FailingHook{Told: f.Told}
		}
		m.FailingHooks[row.To] = f
	}
	m.noteToldByHook(row)
}

// noteToldByHook records that a hook has heard of a credential blocker.
func (f *Faults) noteToldByHook(row Effect) {
	if row.Announces == nil || row.Announces.Event != EventBlocker {
		return
	}
	name := row.Announces.Data.Credential
	if c, fails := f.Credentials[name]; fails && !row.Announces.At.Before(c.Since) {
		c.ToldByHook = true
		f.Credentials[name] = c
	}
}

// HookFailed reports that a hook did not take an event.
type HookFailed struct {
	ID         string
	Permanent  bool
	Reason     string
	RetryAfter time.Duration // as its server asked; 0 means our own backoff
}

// apply sets a backoff, or gives up an event that the hook can never take.
func (e HookFailed) apply(m *machine) {
	i := m.hookCallIndex(e.ID)
	if i < 0 {
		return
	}
	row := &m.HookCalls[i]
	row.Attempts++
	row.Reason = e.Reason
	row.NotBefore = m.now.Add(min(max(backoff(row.Attempts), e.RetryAfter), maxBackoff))
	f := m.failingHook(row.To)
	f.Reason = e.Reason
	m.setFailingHook(row.To, f)
	if e.Permanent {
		m.loseHookCall(i, WordUndeliverable, e.Reason)
	}
}

// Redacted implements [Redactable].
func (e HookFailed) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

// endHookCalls ends the rows that have waited for a day, and the rows of hooks that are not
// configured any more. It tells the operator about lost events of a hook, at most once a day.
func (m *machine) endHookCalls() {
	for i := 0; i < len(m.HookCalls); {
		row := m.HookCalls[i]
		switch {
		case !m.hasHook(row.To):
			m.endHookCall(i, WordWithdrawn, "the hook is not configured any more")
		case row.Waited >= hookGiveUp && row.Attempts > 0:
			m.loseHookCall(i, WordUndeliverable, row.Reason)
		default:
			i++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.FailingHooks)) {
		f := m.FailingHooks[name]
		switch {
		case !m.hasHook(name), !f.Fails() && f.Untold == 0 && m.now.Sub(f.Told) >= hookToldEvery:
			delete(m.FailingHooks, name)
		case f.Untold > 0 && m.now.Sub(f.Told) >= hookToldEvery:
			m.notice(fmt.Sprintf("My hook %q has lost events: %s. They will not be sent again; `agentstateloop events --since %d` lists the events since the first of them. %s. I report this at most once a day.",
				name, f.Reason, f.After, f.now(name)))
			f.Told, f.Untold = m.now, 0
			m.FailingHooks[name] = f
		}
	}
}

func (m *machine) hasHook(name string) bool {
	return slices.ContainsFunc(m.policy.Hooks, func(h HookPolicy) bool { return h.Name == name })
}

// expediteHook makes the rows of a hook due at once.
func (q *HookQueue) expediteHook(name string) {
	for i := range q.HookCalls {
		if row := &q.HookCalls[i]; row.To == name {
			row.NotBefore = time.Time{}
		}
	}
}

// applyHookLine queues a row for a hook again.
func (m *machine) applyHookLine(l Line) {
	m.Numbers.HookCalls = max(m.Numbers.HookCalls, l.Effect.Number)
	if l.What == WordQueued && m.hookCallIndex(l.ID) < 0 {
		m.HookCalls = append(m.HookCalls, *l.Effect)
	}
}

func (q *HookQueue) removeHookCall(id string) {
	if i := q.hookCallIndex(id); i >= 0 {
		q.HookCalls = slices.Delete(q.HookCalls, i, i+1)
	}
}
