package simulator

import (
	"strings"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/state"
	"agentstateloop/turn"
)

// This file has providers that cannot answer for a while (docs/design.md, "Backends"). It checks
// that no message is lost or tried before its time, and that the operator hears of an outage once.

// The backends of the agent. Half of the stories with outages have the second.
const (
	usualBackend  = "agent:exec"
	secondBackend = "agent:exec:1"
)

// outageWishes make the provider of the agent fail for some time.
var outageWishes = []string{"limit", "limit", "limit-unsaid", "limit-at-work", "overload", "blocked", "dead-session", "dead-session"}

// withOutages lets some messages of a story meet an outage.
func withOutages(seed int64, s *Story) {
	g := newGenerator(seed, 60)
	if !g.chance(3) {
		return
	}
	s.Fallback = g.chance(2)
	for i := range s.Steps {
		if s.Steps[i].Wish != "" && g.chance(2) {
			s.Steps[i].Wish = pickOne(g, outageWishes...)
		}
	}
}

// provider is the service that the usual backend asks.
type provider struct {
	until time.Time // by the servers' clock, it cannot answer
	kind  state.OutageKind
	says  bool // it announces the end
	began int  // outages so far
}

// meetOutage returns the result of an attempt whose provider cannot answer, or false. first is
// set if no attempt has received the message yet.
func (w *World) meetOutage(at turn.Attempt, do string, first bool, session string) (turn.Result, bool) {
	if at.Backend != usualBackend {
		w.count.happened("a second provider answered")
		return turn.Result{}, false
	}
	now := w.clock.servers()
	w.mu.Lock()
	defer w.mu.Unlock()
	p := &w.provider
	if o, fails := outageOf[do]; fails && first && !now.Before(p.until) && !w.calmed {
		*p = provider{now.Add(o.lasts), o.kind, o.says, p.began + 1}
	}
	if !now.Before(p.until) {
		return turn.Result{}, false
	}
	w.count.happened("a provider could not answer: " + string(p.kind))
	r := turn.Result{Status: turn.Failed, Reason: cannotAnswer, Exit: turn.ExitError, ExitCode: 1, Outage: &turn.Outage{Kind: p.kind, Reason: cannotAnswer}}
	if p.says {
		r.Outage.Until = w.clock.machine().Add(p.until.Sub(now))
	}
	if do == "limit-at-work" && first {
		r.Worked, r.Session = true, session
	}
	return r, true
}

// outageOf has the outages that begin with a wish, and whether the provider announces their end.
var outageOf = map[string]struct {
	kind  state.OutageKind
	lasts time.Duration
	says  bool
}{
	"limit":         {state.UsageLimit, 40 * time.Minute, true},
	"limit-at-work": {state.UsageLimit, 40 * time.Minute, true},
	"limit-unsaid":  {state.UsageLimit, 25 * time.Minute, false},
	"overload":      {state.Overload, 4 * time.Minute, false},
	"blocked":       {state.Obstacle, 90 * time.Second, false},
}

// configureBackends gives the agent of a process its second backend.
func (w *World) configureBackends(a *cycle.Agent) {
	a.Policy.Backends = []string{usualBackend}
	if !w.story.Fallback {
		return
	}
	second := *a.Turn
	second.LoginName = secondBackend
	a.Backends = []cycle.Backend{{Name: secondBackend, Turn: &second, Rights: a.Rights}}
	a.Policy.Backends = append(a.Policy.Backends, secondBackend)
}

// backendOutages are the outages of backends in a history, by name, with the time of their lines.
type backendOutages map[string]backendOutage

type backendOutage struct {
	state.Outage
	at time.Time
}

func (o backendOutages) read(l line) {
	switch {
	case l.Kind != "backend":
	case l.What == state.WordWorks:
		delete(o, l.From)
	case l.Outage != nil:
		o[l.From] = backendOutage{*l.Outage, l.At}
	}
}

// all reports whether no backend can be used.
func (o backendOutages) all(at time.Time, fallback bool) bool {
	out := func(backend string) bool { u, is := o[backend]; return is && at.Before(u.Until) }
	return out(usualBackend) && (!fallback || out(secondBackend))
}

// limited returns when the usual backend, the only one, is tried again, or the zero time.
func limited(o map[string]state.Outage, now time.Time) time.Time {
	u, out := o[usualBackend]
	if !out || len(o) > 1 || u.Kind != state.UsageLimit || !now.Before(u.Until) {
		return time.Time{}
	}
	return u.Until
}

// Reasons that no failure of a message may have.
const (
	cannotAnswer = "the provider cannot answer"
	tooLong      = "the session is too long"
)

// checkOutages checks that no message fails because of an outage or of its session, and that
// the operator hears of an outage once.
func (w *World) checkOutages(h history) {
	for _, l := range h.lines {
		if l.Kind == "task" && l.Outcome == "failed" && (strings.Contains(l.Reason, cannotAnswer) || strings.Contains(l.Reason, tooLong)) {
			w.violate("limit", "%s failed: %s", l.Key, l.Reason)
		}
	}
	if h.recovered {
		return
	}
	told := 0
	for _, o := range w.record.mails {
		if o.kind == "notice" && strings.Contains(o.words(), "Messages wait, and none is lost.") {
			told++
			w.count.happened("the operator heard of an outage")
		}
	}
	if told > w.provider.began {
		w.violate("limit", "the operator heard %d times of %d outages", told, w.provider.began)
	}
}

// checkTried checks that an attempt does not begin while a limit is known to last, unless a
// person has asked for a poll since, and that the second backend is used only while the first
// is out.
func (r *record) checkTried(at turn.Attempt, h history) {
	w := r.world
	if w.clock.wasWrong() || h.recovered {
		return
	}
	outs := backendOutages{}
	for _, l := range h.lines {
		outs.read(l)
	}
	now := w.clock.machine()
	o, out := outs[at.Backend]
	if usual, is := outs[usualBackend]; at.Backend == secondBackend && (!is || !now.Before(usual.Until)) && !r.byHand.After(usual.at.Add(-time.Second)) {
		w.violate("limit", "turn %s.%d was tried with the second backend, and the first can be used", at.TurnID, at.Epoch)
	}
	if out && o.Known && now.Before(o.Until) && !r.byHand.After(o.at.Add(-time.Second)) {
		w.violate("limit", "turn %s.%d was tried at %s, and its limit lasts until %s", at.TurnID, at.Epoch, now.Format(time.TimeOnly), o.Until.Format(time.TimeOnly))
	}
}
