package fleetsim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/turn"
)

// life is the agent's program while it runs. It holds the lock on the file alive, as a real one
// does. World.mu guards its fields after "ended".
type life struct {
	host  *host
	dir   string
	what  string // turn and epoch
	alive *os.File
	ended chan struct{}

	runner   *process
	obeys    time.Duration // after TERM; negative: never
	work     time.Duration // that is left
	timer    *time.Timer
	began    time.Duration // of the current span, by the true clock; negative while it cannot run
	woke     bool          // the span began with the end of a sleep, or late
	termed   bool
	finished bool
}

// span is a time in which an agent ran.
type span struct {
	host     *host
	what     string
	from, to time.Duration
}

// wakeGrace is how long an agent may run after a late wake: the fence of its runner looks twice a
// second. sweepGrace is the same if its runner is dead or stopped: the next poll of cron kills it.
const (
	wakeGrace  = 600 * time.Millisecond
	sweepGrace = 62 * time.Second
)

// killedBySignal is the reason of an attempt whose agent was killed by another process.
const killedBySignal = "killed by signal 9"

// attempt replaces turn.Config.Run: the agent survives when its runner is killed, and ends when the
// context ends or it is killed.
func (p *process) attempt(ctx context.Context, at turn.Attempt) (turn.Result, error) {
	w := p.host.world
	checked := w.now()
	p.point("agent start")
	stopped := w.now() > checked
	f, err := os.OpenFile(filepath.Join(at.Dir, "alive"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return turn.Result{}, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		return turn.Result{}, turn.ErrHeld
	}
	marker := w.record.prompted(p, at)
	a := p.start(f, at, stopped)
	select {
	case <-ctx.Done():
		p.breathe()
		a.term()
		select {
		case <-a.ended:
		case <-time.After(turn.DefaultGrace):
		case <-p.killed:
			runtime.Goexit()
		}
		p.breathe()
		a.kill("its runner")
	case <-a.ended:
	case <-p.killed:
		runtime.Goexit()
	}
	p.point("agent end")
	switch cause := context.Cause(ctx); {
	case cause == nil:
	case errors.Is(cause, turn.ErrStopped):
		return turn.Result{Status: turn.Canceled, Reason: "stopped", Exit: turn.ExitStopped, ExitCode: -1}, nil
	default:
		return turn.Result{}, cause
	}
	w.mu.Lock()
	killed := a.work > 0
	w.mu.Unlock()
	if killed {
		return turn.Result{Status: turn.Failed, Reason: "the agent was " + killedBySignal, Exit: turn.ExitError, ExitCode: -1}, nil
	}
	return turn.Result{Status: turn.Success, Text: fmt.Sprintf("%s answered by %s.%d", marker, at.TurnID, at.Epoch), Exit: turn.ExitClean}, nil
}

// start starts the agent. If the process was stopped since it last compared its lease with the
// clock, its fence must end the agent soon.
func (p *process) start(alive *os.File, at turn.Attempt, stopped bool) *life {
	w := p.host.world
	if stopped {
		w.happened("a runner was stopped before it started its agent")
	} else if n, ok := w.truth.mayAct(p.host, "an agent is started"); ok {
		if h := n.state().Turn; h.TurnID != at.TurnID || h.Epoch != at.Epoch {
			w.violate("%s starts the agent of %s.%d, and the head has %s.%d", p.host.id, at.TurnID, at.Epoch, h.TurnID, h.Epoch)
		}
	}
	a := &life{
		host: p.host, dir: at.Dir, what: fmt.Sprintf("%s.%d", at.TurnID, at.Epoch), alive: alive, ended: make(chan struct{}), runner: p, woke: stopped,
		work: p.workTime(), obeys: time.Duration(p.pick(6)) * time.Second,
	}
	if a.obeys >= 4*time.Second {
		a.obeys = -1
	}
	w.logf("%s: the agent of %s starts, for %v", p.host.id, a.what, a.work)
	if p.pick(3) == 0 {
		in, half := cycle.Inside{TurnID: at.TurnID, Epoch: at.Epoch}, a.work/2
		time.AfterFunc(half, func() { a.send(in) })
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count["agents"]++
	p.life = a
	a.host.agents = append(a.host.agents, a)
	a.run()
	return a
}

// send runs `send`, as the agent does in its turn.
func (a *life) send(in cycle.Inside) {
	w := a.host.world
	w.mu.Lock()
	runs := a.began >= 0
	w.mu.Unlock()
	if !runs {
		return
	}
	note := "note " + a.what
	err := a.host.wait("send", func(p *process) error { return p.agent.Send(p.ctx, in, peer, note) })
	w.logf("%s: send %q: %v", a.host.id, note, err)
	if err == nil {
		w.happened("an agent sent a message")
		w.set(func() { w.record.notes = append(w.record.notes, note) })
	}
}

// workTime returns how long an agent works: most are quick, and some would outlive a lease.
func (p *process) workTime() time.Duration {
	if p.pick(3) > 0 {
		return time.Duration(2+p.pick(30)) * time.Second
	}
	return time.Duration(30+p.pick(270)) * time.Second
}

// run begins a span. World.mu is held.
func (a *life) run() {
	a.began = a.host.world.now()
	if a.timer != nil {
		a.timer.Stop()
	}
	a.timer = time.AfterFunc(a.work, func() { a.end(true, "it is done") })
}

// prolong lets the agent work for d at least. World.mu is held.
func (a *life) prolong(d time.Duration) {
	if a.began < 0 || a.began+a.work-a.host.world.now() >= d {
		return
	}
	a.work = d + a.host.world.now() - a.began
	a.timer.Reset(d)
}

// pause ends a span without ending the agent. World.mu is held.
func (a *life) pause() {
	if a.finished || a.began < 0 {
		return
	}
	a.timer.Stop()
	a.close()
}

// close records the span. World.mu is held.
func (a *life) close() {
	w := a.host.world
	now := w.now()
	a.work -= now - a.began
	from := a.began
	if a.woke {
		grace := wakeGrace
		if !a.followed() {
			grace = sweepGrace
		}
		from += grace
	}
	if from < now {
		w.record.spans = append(w.record.spans, span{a.host, a.what, from, now})
	}
	a.began = -1
}

// followed reports whether the runner of the agent runs. World.mu is held.
func (a *life) followed() bool {
	return !a.runner.dead && a.runner.stopped == nil && slices.Contains(a.host.running, a.runner)
}

// goOn begins another span after a pause. World.mu is held.
func (a *life) goOn() {
	if a.finished || a.began >= 0 {
		return
	}
	a.woke = true
	a.run()
}

// term sends TERM.
func (a *life) term() {
	a.host.world.mu.Lock()
	defer a.host.world.mu.Unlock()
	if a.termed || a.finished || a.obeys < 0 {
		return
	}
	a.termed = true
	time.AfterFunc(a.obeys, func() { a.end(false, "it obeys") })
}

// kill sends KILL.
func (a *life) kill(why string) { a.end(false, "killed: "+why) }

// end ends the agent.
func (a *life) end(done bool, why string) {
	w := a.host.world
	w.mu.Lock()
	if a.finished || done && a.began < 0 {
		w.mu.Unlock()
		return
	}
	a.finished = true
	a.timer.Stop()
	if a.began >= 0 {
		a.close()
	}
	if done {
		a.work = 0
	} else {
		a.work = max(a.work, 1)
	}
	a.host.agents = slices.DeleteFunc(a.host.agents, func(o *life) bool { return o == a })
	w.mu.Unlock()
	w.logf("%s: the agent of %s ends: %s", a.host.id, a.what, why)
	a.alive.Close()
	close(a.ended)
}

// endTurn replaces turn.End and turn.Kill.
func (p *process) endTurn(ctx context.Context, dir string, grace time.Duration) (abandoned bool, err error) {
	p.point("signal the agent")
	w := p.host.world
	w.mu.Lock()
	i := slices.IndexFunc(p.host.agents, func(a *life) bool { return a.dir == dir })
	if i < 0 {
		w.mu.Unlock()
		return false, nil
	}
	a := p.host.agents[i]
	w.mu.Unlock()
	if grace > 0 {
		a.term()
		select {
		case <-a.ended:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-time.After(grace):
		}
		p.breathe()
	}
	a.kill(p.name)
	return false, nil
}
