package listen

import (
	"context"
	"slices"

	"agentstateloop/cycle"
	"agentstateloop/state/store"
)

// claimAll takes the listen.lock of each agent. It skips the agents of other listeners.
func (l *Listener) claimAll() (agents []*servedAgent, err error) {
	for _, a := range l.Agents {
		p, err := l.claim(a)
		if err != nil {
			return agents, err
		}
		if p != nil {
			agents = append(agents, p)
		}
	}
	if len(agents) == 0 {
		return nil, ErrRunning
	}
	return agents, nil
}

// claim takes the listen.lock of an agent. If another listener holds it, or the agent is being
// removed, claim logs that and returns nil.
func (l *Listener) claim(a *cycle.Agent) (*servedAgent, error) {
	if a.Store.BeingRemoved() {
		l.Logf("@%s: %v", a.Handle, cycle.ErrBeingRemoved)
		return nil, nil
	}
	lock, err := a.Store.TryLock(store.ListenLock)
	if err != nil {
		return nil, err
	}
	if lock == nil {
		l.Logf("@%s: %v", a.Handle, ErrRunning)
		return nil, nil
	}
	return &servedAgent{
		Agent: a, listener: l, lock: lock, cancel: func() {},
		requested: make(chan struct{}, 1), askMesh: make(chan struct{}, 1),
	}, nil
}

// start serves a claimed agent until all ends or stop is called.
func (l *Listener) start(all context.Context, p *servedAgent) {
	ctx, cancel := context.WithCancel(all)
	p.cancel = cancel
	p.wakeURL = l.web.address(p)
	p.unwatched = l.nudgeWatcher.add(p) != nil
	l.mu.Lock()
	l.serving = append(slices.Clone(l.serving), p)
	l.mu.Unlock()
	p.running.Go(l.Secrets.Guarded(func() { p.run(ctx) }))
	l.join(all, p)
	if p.Mesh != nil {
		p.running.Go(l.Secrets.Guarded(func() { p.WatchMesh(ctx, p.askMesh, func() { p.register(ctx) }, p.requestPoll) }))
	}
}

// stop stops serving an agent and releases its lock.
func (l *Listener) stop(p *servedAgent) {
	l.leave(p)
	l.pipe.forget(p)
	l.mu.Lock()
	l.serving = slices.DeleteFunc(slices.Clone(l.serving), func(q *servedAgent) bool { return q == p })
	l.mu.Unlock()
	if l.nudgeWatcher != nil {
		l.nudgeWatcher.remove(p)
	}
	p.cancel()
	p.running.Wait()
	p.Close()
	p.lock.Unlock()
}

// reload calls Reload, and serves its agents from then on.
func (l *Listener) reload(ctx context.Context) {
	if l.Reload == nil {
		return
	}
	agents, changed := l.Reload()
	if !changed {
		return
	}
	serves := map[*cycle.Agent]bool{}
	for _, p := range l.served() {
		if !slices.Contains(agents, p.Agent) {
			l.stop(p)
			continue
		}
		serves[p.Agent] = true
	}
	for _, a := range agents {
		if serves[a] || l.removed[a] {
			continue
		}
		p, err := l.claim(a)
		if err != nil {
			l.Logf("@%s: %v", a.Handle, err)
		}
		if p == nil {
			continue
		}
		l.pipe.record(p)
		l.start(ctx, p)
		// Work may have arrived before the agent was served.
		p.requestPoll()
	}
}

// noticeRemoval makes scan stop serving p if the agent is being removed.
func (l *Listener) noticeRemoval(p *servedAgent) {
	if p.Store.BeingRemoved() {
		signal(l.removal)
	}
}

// leaveRemoved stops serving the agents that are being removed, also after the next reload. It
// reports whether the listener has no purpose any more.
func (l *Listener) leaveRemoved() (last bool) {
	for _, p := range l.served() {
		if p.Store.BeingRemoved() {
			l.Logf("@%s is being removed by `uninstall --purge`: this listener serves it no longer", p.Handle)
			l.removed[p.Agent] = true
			l.stop(p)
		}
	}
	return l.Fixed && len(l.served()) == 0
}

// served returns the currently served agents. The slice is never modified.
func (l *Listener) served() []*servedAgent {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.serving
}

// find returns the served agent with that handle, or nil.
func (l *Listener) find(handle string) *servedAgent {
	for _, p := range l.served() {
		if p.Handle == handle {
			return p
		}
	}
	return nil
}
