package listen

import (
	"context"
	"slices"

	"agentstateloop/cycle"
)

// claimAll takes the listen.lock of each agent, and leaves out those whose is
// taken.
func (l *Listener) claimAll() (posts []*post, err error) {
	for _, a := range l.Agents {
		p, err := l.claim(a)
		if err != nil {
			return posts, err
		}
		if p != nil {
			posts = append(posts, p)
		}
	}
	if len(posts) == 0 {
		return nil, ErrTaken
	}
	return posts, nil
}

// claim takes the listen.lock of an agent; where another has it, that is told
// and there is no post.
func (l *Listener) claim(a *cycle.Agent) (*post, error) {
	lock, err := a.Store.TryLock(lockFile)
	if err != nil {
		return nil, err
	}
	if lock == nil {
		l.Tell("@%s: %v", a.Handle, ErrTaken)
		return nil, nil
	}
	return &post{
		Agent: a, listener: l, lock: lock, cancel: func() {},
		woken: make(chan struct{}, 1), kick: make(chan struct{}, 1),
	}, nil
}

// start serves an agent that was claimed, until all ends or stop is called.
func (l *Listener) start(all context.Context, p *post) {
	ctx, cancel := context.WithCancel(all)
	p.cancel = cancel
	p.wakeURL = l.web.address(p)
	p.blind = l.eyes.open(p) != nil
	l.mu.Lock()
	l.posts = append(slices.Clone(l.posts), p)
	l.mu.Unlock()
	p.running.Go(l.Secrets.Guarded(func() { p.run(ctx) }))
	l.join(all, p)
	if p.Mesh != nil {
		p.running.Go(l.Secrets.Guarded(func() { p.WatchMesh(ctx, p.kick, func() { p.register(ctx) }, p.wake) }))
	}
}

// stop serves an agent no more, and lets its lock go.
func (l *Listener) stop(p *post) {
	l.leave(p)
	l.mu.Lock()
	l.posts = slices.DeleteFunc(slices.Clone(l.posts), func(q *post) bool { return q == p })
	l.mu.Unlock()
	if l.eyes != nil {
		l.eyes.drop(p)
	}
	p.cancel()
	p.running.Wait()
	p.lock.Unlock()
}

// change serves other agents from now on, if Again says so.
func (l *Listener) change(ctx context.Context) {
	if l.Again == nil {
		return
	}
	agents, changed := l.Again()
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
		if serves[a] {
			continue
		}
		p, err := l.claim(a)
		if err != nil {
			l.Tell("@%s: %v", a.Handle, err)
		}
		if p == nil {
			continue
		}
		l.start(ctx, p)
		// Of what its predecessor was told we know nothing.
		p.wake()
	}
}

// served gives the agents that are served now, in a slice that nobody changes.
func (l *Listener) served() []*post {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.posts
}

// find gives the post of a handle; nil if there is none.
func (l *Listener) find(handle string) *post {
	for _, p := range l.served() {
		if p.Handle == handle {
			return p
		}
	}
	return nil
}
