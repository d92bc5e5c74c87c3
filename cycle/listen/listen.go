package listen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"agentstateloop/cycle"
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

	Pipe string // path of a named pipe, made if it is not there; "" for none

	// Tell is told, a line each, of trouble and of its end; it is called by
	// several goroutines at once.
	Tell func(format string, args ...any)

	// Ready is called once, when everything that can wake is in place; Alive
	// again and again, as long as the listener is not stuck. Both may be nil.
	Ready, Alive func()

	posts []*post
	slots chan struct{}
}

// post is one agent's place in the listener.
type post struct {
	*cycle.Agent
	listener *Listener
	woken    chan struct{} // holds one: a poll is to be made
	kick     chan struct{} // holds one: the mesh is to be asked without delay
	wakeURL  string        // what the mesh rings
	blind    bool          // nudges/ cannot be watched; used by the scan alone
}

// Run listens until ctx ends, and returns nil then. An agent that another
// listener serves is left to it, which is told; if there is no other, it is
// ErrTaken.
func (l *Listener) Run(ctx context.Context) error {
	l.slots = make(chan struct{}, mostPolls)
	release, err := l.claim()
	defer release()
	if err != nil {
		return err
	}
	pipe, err := l.openPipe()
	if err != nil {
		return err
	}
	eyes := l.openEyes()
	defer eyes.close()

	var running sync.WaitGroup
	for _, p := range l.posts {
		running.Go(func() { p.run(ctx) })
	}
	for _, box := range l.mailboxes() {
		running.Go(func() { box.watch(ctx) })
	}
	web := l.webServer()
	running.Go(func() { web.Serve(l.Web) })
	running.Go(func() { shutDown(ctx, web) })
	for _, p := range l.posts {
		if p.Mesh != nil {
			running.Go(func() { p.WatchMesh(ctx, p.kick, func() { p.register(ctx) }, p.wake) })
		}
	}
	running.Go(func() { eyes.watch(ctx) })
	if pipe != nil {
		running.Go(func() { pipe.read(ctx) })
	}
	if l.Ready != nil {
		l.Ready()
	}
	l.scan(ctx, eyes)
	running.Wait()
	return nil
}

// claim takes the listen.lock of each agent, and leaves out those whose is
// taken.
func (l *Listener) claim() (release func(), err error) {
	var locks []*state.Lock
	release = func() {
		for _, lock := range locks {
			lock.Unlock()
		}
	}
	for _, a := range l.Agents {
		lock, err := a.Store.TryLock(lockFile)
		if err != nil {
			return release, err
		}
		if lock == nil {
			l.Tell("@%s: %v", a.Handle, ErrTaken)
			continue
		}
		locks = append(locks, lock)
		l.posts = append(l.posts, &post{
			Agent: a, listener: l, woken: make(chan struct{}, 1), kick: make(chan struct{}, 1),
		})
	}
	if len(l.posts) == 0 {
		return release, ErrTaken
	}
	return release, nil
}

// find gives the post of a handle; nil if there is none.
func (l *Listener) find(handle string) *post {
	for _, p := range l.posts {
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

// scan looks again and again at what a wake may have been missed for.
func (l *Listener) scan(ctx context.Context, eyes *eyes) {
	slow, quick := time.NewTicker(scanEvery), time.NewTicker(time.Second)
	defer slow.Stop()
	defer quick.Stop()
	for _, p := range l.posts {
		p.check()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-quick.C:
			for _, p := range l.posts {
				if p.blind {
					p.check()
				}
			}
		case <-slow.C:
			for _, p := range l.posts {
				p.blind = eyes.open(p) != nil
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
	why, err := p.Wants()
	if err != nil {
		p.listener.Tell("@%s: %v", p.Handle, err)
	}
	if why != "" {
		p.wake()
	}
}
