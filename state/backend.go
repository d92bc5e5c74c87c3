package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// OutageKind is the reason why a backend cannot be used for a while.
type OutageKind string

// The kinds of outages.
const (
	UsageLimit   OutageKind = "limit"    // the usage limit of its account is reached
	Overload     OutageKind = "overload" // its provider is overloaded or cannot be reached
	LoginRefused OutageKind = "login"    // its login is refused, and there is a fallback
	Obstacle     OutageKind = "obstacle" // something on this machine prevents it
)

// Valid reports whether k is one of the kinds.
func (k OutageKind) Valid() bool { return slices.Contains(outageKinds[:], k) }

var outageKinds = [...]OutageKind{UsageLimit, Overload, LoginRefused, Obstacle}

// pauses returns the first and the longest pause of an outage with an unknown end. Each pause is
// twice as long as the one before.
func (k OutageKind) pauses() (first, longest time.Duration) {
	switch k {
	case Overload:
		return time.Minute, 15 * time.Minute
	case Obstacle:
		return obstaclePause, obstaclePause
	}
	return 5 * time.Minute, time.Hour
}

// obstaclePause keeps one poll from trying again and again. The next poll tries even if the pause
// is not over.
const obstaclePause = 45 * time.Second

// tryObstacles ends the pauses of obstacles. Every poll tries such a backend once, because only a
// try shows whether the obstacle is gone.
func (m *machine) tryObstacles() {
	for backend, o := range m.Outages {
		if o.Kind == Obstacle {
			o.Until = earlier(o.Until, m.now)
			m.Outages[backend] = o
		}
	}
}

// maxOutage bounds how long a backend is left alone, even if its provider gives a later time. The
// longest limits of subscriptions last a week.
const maxOutage = 8 * 24 * time.Hour

// Outage is a backend that cannot be used until a time (docs/design.md, "Backends"). A row
// exists from the first failure until the backend has worked.
type Outage struct {
	Kind   OutageKind    `json:"kind"`
	Since  time.Time     `json:"since"`           // the first failure
	Until  time.Time     `json:"until"`           // when it is tried again
	Wait   time.Duration `json:"wait"`            // from the last failure to Until
	Tries  int           `json:"tries"`           // failures in a row, of this kind
	Known  bool          `json:"known,omitempty"` // the provider gave the end
	Told   bool          `json:"told,omitempty"`  // the operator was mailed about it
	Reason string        `json:"reason,omitempty"`
}

// BackendFailed reports that an attempt could not use its backend. Until is the end of the outage,
// or zero if unknown.
type BackendFailed struct {
	Backend string
	Kind    OutageKind
	Reason  string
	Until   time.Time
}

// apply records the outage. The operator hears of it once, if no other backend can take over.
func (e BackendFailed) apply(m *machine) {
	o, known := m.Outages[e.Backend]
	if !known {
		o.Since = m.now
	}
	if o.Kind != e.Kind {
		o.Kind, o.Tries = e.Kind, 0
	}
	o.Tries++
	o.Reason, o.Known = e.Reason, e.Until.After(m.now)
	o.Wait = o.pause()
	if o.Known {
		o.Wait = min(e.Until.Sub(m.now), maxOutage)
	}
	o.Until = m.now.Add(o.Wait)
	m.setOutage(e.Backend, o)
	m.tellOutage(e.Backend)
	o = m.Outages[e.Backend]
	m.line(Line{Kind: LineBackend, What: WordOut, From: e.Backend, Reason: e.Reason, Outage: &o})
}

// Redacted implements [Redactable].
func (e BackendFailed) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

// pause returns how long to leave a backend alone if the end of its outage is unknown.
func (o Outage) pause() time.Duration {
	pause, longest := o.Kind.pauses()
	for n := 1; n < o.Tries && pause < longest; n++ {
		pause *= 2
	}
	return min(pause, longest)
}

// BackendWorked reports that a backend has answered.
type BackendWorked struct{ Backend string }

func (e BackendWorked) apply(m *machine) {
	if _, out := m.Outages[e.Backend]; !out {
		return
	}
	delete(m.Outages, e.Backend)
	m.line(Line{Kind: LineBackend, What: WordWorks, From: e.Backend})
}

func (f *Faults) setOutage(backend string, o Outage) {
	if f.Outages == nil {
		f.Outages = map[string]Outage{}
	}
	f.Outages[backend] = o
}

func (f *Faults) applyBackendLine(l Line) {
	switch {
	case l.What == WordWorks:
		delete(f.Outages, l.From)
	case l.Outage != nil:
		f.setOutage(l.From, *l.Outage)
	}
}

// forgetBackends ends the outages of backends that the configuration does not name any more.
func (m *machine) forgetBackends() {
	backends := m.policy.BackendNames()
	for name := range m.Outages {
		if m.policy.Turns && !slices.Contains(backends, name) {
			delete(m.Outages, name)
		}
	}
	m.Purse.Unbilled = slices.DeleteFunc(m.Purse.Unbilled, func(name string) bool { return m.policy.Turns && !slices.Contains(backends, name) })
}

// BackendNames returns the names of the backends, in the order in which they are tried.
func (p Policy) BackendNames() []string {
	if len(p.Backends) > 0 {
		return p.Backends
	}
	return []string{p.Login}
}

// OutageOf returns the outage of a backend. out is true if the backend must not be tried at now.
func (f Faults) OutageOf(backend string, now time.Time) (o Outage, out bool) {
	o, out = f.Outages[backend]
	return o, out && now.Before(o.Until)
}

// Backend returns the index of the first usable backend, which runs a turn at now. ok is false if
// every backend is out.
func (f Faults) Backend(p Policy, now time.Time) (i int, ok bool) {
	i = slices.IndexFunc(p.BackendNames(), func(name string) bool {
		_, out := f.OutageOf(name, now)
		return !out
	})
	return i, i >= 0
}

// AllOut returns the outage that ends first, and its backend, if every backend is out at now.
func (f Faults) AllOut(p Policy, now time.Time) (backend string, first Outage, out bool) {
	for _, name := range p.BackendNames() {
		o, isOut := f.OutageOf(name, now)
		if !isOut {
			return "", Outage{}, false
		}
		if backend == "" || o.Until.Before(first.Until) {
			backend, first = name, o
		}
	}
	return backend, first, true
}

// reopens returns when turns are possible again after failures, or the zero time if failures do not
// hold them back. An obstacle on this machine has no such time: each poll tries it.
func (s State) reopens(p Policy, now time.Time) time.Time {
	_, o, out := s.AllOut(p, now)
	if !out || o.Kind == Obstacle {
		return s.CooldownUntil
	}
	return latest(s.CooldownUntil, o.Until)
}

// waitsForBackend reports whether a message of the operator has no turn because every backend is
// out.
func (m *machine) waitsForBackend() bool {
	_, _, out := m.AllOut(m.policy, m.now)
	return out && slices.ContainsFunc(m.Inbox, func(msg Message) bool { return msg.Operator && !msg.ByItself() })
}

// tellAtTry is the failure in a row at which the operator hears of an overload. Most overloads end
// before.
const tellAtTry = 2

// tellOutage mails the operator once that every backend is out, and until when.
func (m *machine) tellOutage(backend string) {
	_, first, out := m.AllOut(m.policy, m.now)
	o := m.Outages[backend]
	if !out || o.Told || o.Kind == LoginRefused || o.Kind == Overload && o.Tries < tellAtTry {
		return
	}
	o.Told = true
	m.Outages[backend] = o
	var text string
	for _, name := range m.policy.BackendNames() {
		text += m.Outages[name].Sentence(name) + "\n"
	}
	text += "\nMessages wait, and none is lost. "
	if first.Kind == Obstacle {
		m.notice(text + "I will try again at every poll.")
		return
	}
	text += "I will try again at " + m.policy.clock(first.Until)
	if !first.Known {
		_, longest := first.Kind.pauses()
		text += fmt.Sprintf(", and then with pauses of up to %d minutes", longest/time.Minute)
	}
	m.notice(text + ". `agentstateloop poll` on the agent's machine tries at once.")
}

// Sentence describes why a backend is out.
func (o Outage) Sentence(backend string) string {
	name := BackendName(backend)
	switch o.Kind {
	case UsageLimit:
		return "The usage limit of " + name + " is reached: " + o.Reason
	case Overload:
		return name + " is overloaded or cannot be reached: " + o.Reason
	case LoginRefused:
		return "The login of " + name + " is refused: " + o.Reason
	}
	return name + " cannot run on this machine: " + o.Reason
}

// BackendName returns the name of a backend for people: "claude", "claude (low)" or "fallback 1
// (codex)".
func BackendName(backend string) string {
	runner, rest, _ := strings.Cut(strings.TrimPrefix(backend, "agent:"), ":")
	switch rest {
	case "":
		return cmp.Or(runner, "the agent")
	case LowBackend:
		return runner + " (low)"
	}
	return "fallback " + rest + " (" + runner + ")"
}

// LowBackend ends the name of the backend that replaces the usual one, with the [turn] low_…
// settings, while the usual one is at its limit.
const LowBackend = "low"

// clock formats a time for the operator, in the zone of the schedule.
func (p Policy) clock(t time.Time) string {
	return t.In(cmp.Or(p.Location, time.UTC)).Format("2006-01-02 15:04 MST")
}
