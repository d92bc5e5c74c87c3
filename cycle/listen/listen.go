package listen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/internal/secret"
	"agentstateloop/state"
)

// ErrTaken: another listener serves every agent that this one was to serve.
var ErrTaken = errors.New("another listener serves it already")

const (
	// lockFile is held for as long as a listener serves an agent.
	lockFile = "listen.lock"

	// scanEvery is how often everything is looked at that a wake may have been
	// missed for, and turns without a runner are looked for.
	scanEvery = 10 * time.Second

	// mostPolls is how many polls run at once, of all agents: a mail for a box
	// that hundreds share must not open hundreds of connections.
	mostPolls = 8
)

// Listener is one listener. Its fields are set before Run.
type Listener struct {
	Agents []*cycle.Agent

	// Web is where the webhook and the wake addresses are served, on loopback.
	Web net.Listener

	// Token gives the bearer token of the webhook, read anew for each call; nil
	// closes the webhook. Its error must not hold the token.
	Token func(context.Context) (string, error)

	// Again, where set, is asked ten seconds after the last time which agents are
	// to be served from then on, all of them; changed is false where they are the
	// same. One that is the very Agent served already is not disturbed.
	Again func() (agents []*cycle.Agent, changed bool)

	// Every stands in for those ten seconds; 0: they stay.
	Every time.Duration

	Pipe string // path of a named pipe, made if it is not there; "" for none

	Secrets *secret.Known // kept out of crash reports; nil: none are known

	// Tell is told, a line each, of trouble and of its end; it is called by
	// several goroutines at once.
	Tell func(format string, args ...any)

	// Ready is called once, when everything that can wake is in place; Alive
	// again and again, as long as the listener is not stuck. Both may be nil.
	Ready, Alive func()

	slots   chan struct{}
	eyes    *eyes
	web     *web
	running sync.WaitGroup // all but the posts' own goroutines

	mu    sync.Mutex
	posts []*post
	boxes map[string]*mailbox // by the id of the box
}

// post is one agent's place in the listener.
type post struct {
	*cycle.Agent
	listener *Listener
	lock     *state.Lock
	cancel   context.CancelFunc // ends its goroutines
	running  sync.WaitGroup     // these
	woken    chan struct{}      // holds one: a poll is to be made
	kick     chan struct{}      // holds one: the mesh is to be asked without delay
	wakeURL  string             // what the mesh rings
	blind    bool               // nudges/ cannot be watched; used by the scan alone
}

// Run listens until ctx ends, and returns nil then. An agent that another
// listener serves is left to it, which is told; if there is no other, it is
// ErrTaken.
func (l *Listener) Run(ctx context.Context) error {
	l.slots = make(chan struct{}, mostPolls)
	l.boxes = map[string]*mailbox{}
	posts, err := l.claimAll()
	defer func() {
		for _, p := range posts {
			l.stop(p)
		}
	}()
	if err != nil {
		return err
	}
	pipe, err := l.openPipe()
	if err != nil {
		return err
	}
	l.eyes = l.openEyes()
	defer l.eyes.close()

	l.web = newWeb(l)
	for _, p := range posts {
		l.start(ctx, p)
	}
	server := l.web.server()
	l.running.Go(l.Secrets.Guarded(func() { server.Serve(l.Web) }))
	l.running.Go(l.Secrets.Guarded(func() { shutDown(ctx, server) }))
	l.running.Go(l.Secrets.Guarded(func() { l.eyes.watch(ctx) }))
	if pipe != nil {
		l.running.Go(l.Secrets.Guarded(func() { pipe.read(ctx) }))
	}
	if l.Ready != nil {
		l.Ready()
	}
	l.scan(ctx)
	l.running.Wait()
	posts = l.served()
	return nil
}

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

// wake asks for a poll. However many ask while one runs, one more follows.
func (p *post) wake() { note(p.woken) }

// note leaves a word in a channel that holds one.
func note(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run polls whenever it is woken.
func (p *post) run(ctx context.Context) {
	again := cycle.Backoff{Least: 100 * time.Millisecond, Most: time.Minute}
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.woken:
		}
		err := p.poll(ctx)
		if err == nil || ctx.Err() != nil {
			again.Reset()
			continue
		}
		if !errors.Is(err, cycle.ErrBusy) {
			p.listener.Tell("@%s: poll: %v", p.Handle, err)
		}
		// The poll at work may have looked at the mail before ours came.
		select {
		case <-ctx.Done():
		case <-time.After(again.Next()):
		}
		p.wake()
	}
}

// poll is steps 1 to 6 of a cycle; the turns are left to a process of their own.
func (p *post) poll(ctx context.Context) error {
	select {
	case p.listener.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-p.listener.slots }()
	r, err := p.Poll(ctx, cycle.PollOptions{NoTurn: true})
	if err != nil {
		return err
	}
	if !r.TurnWaiting {
		return nil
	}
	if err := p.Detach(); err != nil {
		return fmt.Errorf("run the turn: %w", err)
	}
	return nil
}

// scan looks again and again at what a wake may have been missed for, and for
// whom.
func (l *Listener) scan(ctx context.Context) {
	slow, quick := time.NewTicker(cmp.Or(l.Every, scanEvery)), time.NewTicker(time.Second)
	defer slow.Stop()
	defer quick.Stop()
	for _, p := range l.served() {
		p.check()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-quick.C:
			for _, p := range l.served() {
				if p.blind {
					p.check()
				}
			}
		case <-slow.C:
			l.change(ctx)
			for _, p := range l.served() {
				p.blind = l.eyes.open(p) != nil
				p.check()
			}
		}
		if l.Alive != nil {
			l.Alive()
		}
	}
}

// check wakes if no wake waits already, and there is something to poll for.
func (p *post) check() {
	if len(p.woken) > 0 {
		return
	}
	why, err := p.PollReason()
	if err != nil {
		p.listener.Tell("@%s: %v", p.Handle, err)
	}
	if why != "" {
		p.wake()
	}
}
