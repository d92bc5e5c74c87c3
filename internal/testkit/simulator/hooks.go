package simulator

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"slices"
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
	if h := w.readHistory(); len(h.lines) > 0 {
		recorded = h.lines[len(h.lines)-1].Serial
	}
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
