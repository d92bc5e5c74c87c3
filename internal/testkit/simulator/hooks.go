package simulator

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/cycle/hook"
	"agentstateloop/state"
)

// hookTimeout limits a call. A hook that hangs costs that much of the world's time.
const hookTimeout = 10 * time.Second

// listener is a hook of the world: a program that hears of events.
type listener struct {
	name  string
	on    []string
	mode  string    // how it answers; see hookModes
	spans []serials // the commits in which it was configured
	calls []hookCall
}

// serials are the commits from one to another, without the first and with the last.
type serials struct{ after, until uint64 }

// hookCall is a call as the hook saw it.
type hookCall struct {
	id     string
	body   string
	serial uint64 // of the last commit before
	took   bool
}

// hookModes are how hooks answer: they take the event; take a while; hang until their
// time is up; fail; refuse it for good; take it, and the answer is lost; or the process
// that calls them dies once, before they took it or after. One that is gone is not
// configured.
var hookModes = []string{"fine", "slow", "hang", "hang", "hang", "fail", "fail", "refuse", "lost", "die", "die-late", "gone"}

// taking are the modes in which the hook takes the event.
var taking = []string{"fine", "slow", "lost", "die", "die-late"}

// newListeners returns the hooks that a story can configure.
func newListeners() []*listener {
	return []*listener{
		{name: "pager", mode: "gone", on: []string{"task", "phase", "halt", "go", "blocker"}},
		{name: "diary", mode: "gone", on: []string{"*"}},
	}
}

// setHook lets a hook answer in another way from now on.
func (w *World) setHook(s Step) error {
	l := w.hooks[0]
	if s.N%3 == 1 { // the one with all events costs time
		l = w.hooks[1]
	}
	last, recorded := w.serials()
	switch {
	case l.mode == "gone" && s.Kind != "gone":
		l.spans = append(l.spans, serials{last, math.MaxUint64})
	case l.mode != "gone" && s.Kind == "gone":
		l.spans[len(l.spans)-1].until = recorded
	}
	l.mode = s.Kind
	w.restful.Store(false)
	return nil
}

// mendHooks lets all hooks answer.
func (w *World) mendHooks() {
	for _, l := range w.hooks {
		if l.mode != "gone" {
			l.mode = "fine"
		}
	}
}

// serials returns the number of the last commit, and of the last one in the history. If the state
// is lost, the commits after the second number are lost with it.
func (w *World) serials() (last, recorded uint64) {
	s, _ := w.state()
	recorded = lastOf(w.readHistory().lines).Serial
	return max(s.Serial, recorded), recorded
}

// configureHooks gives the agent of a process the hooks that are configured now.
func (p *process) configureHooks(a *cycle.Agent) {
	for _, l := range p.world.hooks {
		if l.mode != "gone" {
			a.Hooks = append(a.Hooks, hook.Hook{Name: l.name, On: l.on, Timeout: hookTimeout})
			a.Policy.Hooks = append(a.Policy.Hooks, state.HookPolicy{Name: l.name, On: l.on})
		}
	}
	a.CallHook = p.callHook
}

// callHook replaces Hook.Deliver.
func (p *process) callHook(_ context.Context, h hook.Hook, c hook.Call) error {
	w := p.world
	l := w.hooks[slices.IndexFunc(w.hooks, func(l *listener) bool { return l.name == h.Name })]
	s, err := p.agent.Store.Read()
	if err != nil {
		return err
	}
	w.checkHookHoldsNothing(p, l)
	v := p.pointOrDie(l, "die", "hook call")
	p.exitIfDead(goOn)
	does := l.mode
	switch v {
	case refused, half, cutOff:
		does = "fail"
	case stalled:
		does = "hang"
	case lost, lostAll:
		does = "lost"
		defer p.exitIfDead(v)
	}
	call := hookCall{id: c.ID, body: string(c.Body), serial: s.Serial, took: slices.Contains(taking, does)}
	w.record.mu.Lock()
	l.calls = append(l.calls, call)
	w.record.mu.Unlock()
	w.count.happened("a hook was called: " + does)
	switch does {
	case "slow":
		w.clock.pass(hookTimeout / 2)
	case "hang":
		w.clock.pass(hookTimeout)
		p.pollWhileHookHangs()
		return &hook.Error{Reason: "it did not end within 10s"}
	case "fail":
		return &hook.Error{Reason: "the server answered 503"}
	case "refuse":
		return &hook.Error{Reason: "the server answered 404", Permanent: true}
	case "lost":
		return &hook.Error{Reason: "the connection was reset"}
	}
	p.exitIfDead(p.pointOrDie(l, "die-late", "hook answer"))
	return nil
}

// pointOrDie is point, and kills the process if that is how the hook answers, once.
func (p *process) pointOrDie(l *listener, mode, site string) verdict {
	v := p.point(Main, site)
	if v == goOn && l.mode == mode {
		l.mode = "fine"
		v = p.strike(&Fault{What: Crash}, site)
	}
	return v
}

// pollWhileHookHangs lets another poll run while a hook hangs, once in each process. The hook must
// not hold up the poll or the mail that is due in it.
func (p *process) pollWhileHookHangs() {
	w := p.world
	if p.hung || w.depth() > 1 {
		return
	}
	p.hung = true
	p.mu.Lock()
	p.interrupted = true
	p.mu.Unlock()
	strikes, began, begin := w.strikes.Load(), w.clock.servers(), time.Now()
	o := cycle.PollOptions{ByHand: true}
	r, err := w.poll(nil, o)
	if err == nil && r.Skipped == "" && strikes == w.strikes.Load() && time.Since(begin) < networkTimeout {
		w.count.happened("a poll ran while a hook hung")
		w.checkSending(r, o, began)
	}
	p.exitIfDead(goOn)
}

// checkHookHoldsNothing checks that a process that calls a hook holds neither cycle.lock nor
// state.lock.
func (w *World) checkHookHoldsNothing(p *process, l *listener) {
	if w.depth() > 1 {
		return // the other process may hold them
	}
	for _, lock := range []string{"cycle.lock", "state.lock"} {
		if !w.isFree(lock, 100) {
			w.violate("hooks", "%s calls the hook %s under %s", p.name, l.name, lock)
		}
	}
}

// isFree reports whether a lock of the state directory is free, at one of some looks. A child of
// this very process, such as another world's crontab, holds all of its locks from its fork to its
// exec.
func (w *World) isFree(lock string, looks int) bool {
	f, err := os.OpenFile(filepath.Join(w.stateDir(), lock), os.O_RDWR, 0)
	if err != nil {
		return true // no process has made it
	}
	defer f.Close()
	for range looks {
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			return true
		}
		time.Sleep(10 * time.Millisecond) // flock with a wait cannot be given up
	}
	return false
}

// These checks hold the promises about hooks (docs/design.md, "Hooks").

// events are the names of events as docs/events.md has them, by the kind of the line that announces
// them and its word, or the kind of the effect that it queues.
var events = map[state.LineKind]map[string]string{
	"turn":       {"submitted": "turn.submitted", "suspended": "turn.suspended", "reaped": "turn.reaped", "given back": "turn.given_back"},
	"credential": {"blocker": "blocker", "blocker over": "blocker.over", "failed": "credential.failed", "recovered": "credential.recovered"},
	"delivery":   {"sent": "sent", "undeliverable": "undelivered"},
	"effect":     {"ack": "ack", "quiet": "quiet", "question": "question.asked"},
}

// event returns the name of the event that a line announces, or "" for lines that the checker
// ignores.
func (l line) event() string {
	switch l.Kind {
	case "task":
		return "task." + string(l.Outcome)
	case "transition":
		return "phase." + string(l.New)
	case "halt":
		return string(l.What)
	case "message", "nudge", "control", "reset":
		return string(l.Kind)
	case "gate":
		return "quarantine"
	case "effect":
		if l.What != state.WordQueued || l.Effect == nil {
			return ""
		}
		return events[l.Kind][string(l.Effect.Kind)]
	}
	if l.isAboutHook() {
		return ""
	}
	return events[l.Kind][string(l.What)]
}

// id returns the name of the line in an announcement.
func (l line) id() string { return fmt.Sprintf("%d.%d", l.Serial, l.N) }

// isAboutHook reports whether a line is about a row for a hook.
func (l line) isAboutHook() bool { return strings.HasPrefix(l.ID, "hook.") }

// hears reports whether a hook hears an event.
func (l *listener) hears(event string) bool {
	return slices.ContainsFunc(l.on, func(on string) bool { return on == "*" || on == event || strings.HasPrefix(event, on+".") })
}

// wasConfigured reports whether the hook was configured for a commit for sure.
func (l *listener) wasConfigured(serial uint64) bool {
	return slices.ContainsFunc(l.spans, func(s serials) bool { return s.after < serial && serial <= s.until })
}

// checkHooks checks that each hook has heard each of its events, under one id with the same bytes
// and in order, or that the history records the loss; that no line about a hook makes an event; and
// that no row waits for a hook at the end.
func (w *World) checkHooks(h history) {
	lines := map[string]line{}
	for _, l := range h.lines {
		lines[l.id()] = l
	}
	for _, l := range w.hooks {
		rows := w.hookRows(h, lines, l)
		if w.isComplete(h, l, rows) {
			w.checkCalls(h, l, rows)
		}
	}
}

// hookRows returns the lines that queue a row for a hook, in order.
func (w *World) hookRows(h history, lines map[string]line, l *listener) (rows []line) {
	for _, e := range h.lines {
		if !e.is("effect", state.WordQueued) || e.Effect == nil || e.Effect.Kind != "hook" || e.Effect.To != l.name {
			continue
		}
		if ends := h.delivered[e.ID]; len(ends) > 1 {
			w.violate("hooks", "%s ended %d times: %v", e.ID, len(ends), ends)
		}
		of, known := lines[e.Effect.Announces.ID]
		switch a := e.Effect.Announces; {
		case !known || of.Serial != e.Serial:
			w.violate("hooks", "%s for %s announces %s, which is not a line of its commit", e.ID, l.name, a.ID)
		case of.isAboutHook():
			w.violate("hooks", "%s for %s announces %s, which is about a hook: %s", e.ID, l.name, a.ID, of)
		case of.event() != "" && of.event() != a.Event || !l.hears(a.Event) || len(l.spans) == 0:
			w.violate("hooks", "%s for %s announces %s as %q, and is not to", e.ID, l.name, of, a.Event)
		}
		rows = append(rows, e)
	}
	return rows
}

// isComplete checks that there is one row for each line that the hook hears of.
func (w *World) isComplete(h history, l *listener, rows []line) bool {
	count := map[string]int{}
	for _, r := range rows {
		count[r.Effect.Announces.ID]++
	}
	for _, of := range h.lines {
		event := of.event()
		if event == "" || !l.hears(event) || !l.wasConfigured(of.Serial) {
			continue
		}
		if n := count[of.id()]; n != 1 {
			w.violate("hooks", "%d rows for %s announce %s (%s)", n, l.name, of, event)
			return false
		}
		w.count.happened("a hook was to hear of something")
	}
	return true
}

// checkCalls compares the calls of a hook with the rows for it.
func (w *World) checkCalls(h history, l *listener, rows []line) {
	bodies, took := map[string]string{}, map[string]bool{}
	for _, c := range l.calls {
		i := slices.IndexFunc(rows, func(r line) bool { return r.ID == c.id })
		if i < 0 {
			w.violate("hooks", "%s was called for %s, and no row has that id", l.name, c.id)
			return
		}
		if body, again := bodies[c.id]; again && body != c.body {
			w.violate("hooks", "%s was handed two bodies for %s:\n%s\n%s", l.name, c.id, body, c.body)
		}
		bodies[c.id], took[c.id] = c.body, took[c.id] || c.took
		w.checkBody(l, *rows[i].Effect.Announces, c.body)
		if end := lastOf(h.delivered[c.id]); end.Serial != 0 && end.Serial <= c.serial {
			w.violate("hooks", "%s was called for %s after commit %d, and that had ended: %s", l.name, c.id, c.serial, end)
		}
		for _, earlier := range rows[:i] {
			if at := lastOf(h.delivered[earlier.ID]).Serial; at == 0 || at > c.serial {
				w.violate("hooks", "%s was called for %s after commit %d, before %s had ended", l.name, c.id, c.serial, earlier.ID)
			}
		}
	}
	for _, r := range rows {
		switch end := lastOf(h.delivered[r.ID]); {
		case end.What == "":
			w.violate("hooks", "%s for %s waits at the end: %+v", r.ID, l.name, r.Effect.Announces)
		case end.What == state.WordSent && !took[r.ID]:
			w.violate("hooks", "%s ended as %q, and %s has not taken it", r.ID, end.What, l.name)
		case end.What == state.WordSent:
			w.count.happened("a hook took an event")
		case end.Reason == "":
			w.violate("hooks", "%s for %s ended as %q, without a reason", r.ID, l.name, end.What)
		default:
			w.count.happened("an event for a hook was lost: " + string(end.What))
		}
	}
}

// checkBody checks that a hook gets the event of its row, and no text of a sender.
func (w *World) checkBody(l *listener, want state.Announcement, body string) {
	var got state.Announcement
	if err := json.Unmarshal([]byte(body), &got); err != nil || !reflect.DeepEqual(got, want) || got.Agent != handle {
		w.violate("hooks", "%s was handed %s, and the event is %+v: %v", l.name, body, want, err)
	}
	if strings.Contains(body, " do=") {
		w.violate("hooks", "%s was handed what somebody wrote: %s", l.name, body)
	}
}
