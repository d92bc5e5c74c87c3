package listen

import (
	"cmp"
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/internal/secret"
)

// ErrRunning: another listener serves every agent that this one was to serve.
var ErrRunning = errors.New("another listener serves it already")

const (
	// lockFile is held for as long as a listener serves an agent.
	lockFile = "listen.lock"

	// scanEvery is how often everything is looked at that a wake may have been
	// missed for, and turns without a runner are looked for.
	scanEvery = 10 * time.Second

	// maxPolls is how many polls run at once, of all agents: a mail for a box
	// that hundreds share must not open hundreds of connections.
	maxPolls = 8
)

// Listener is one listener. Its fields are set before Run.
type Listener struct {
	Agents []*cycle.Agent

	// Web is where the webhook and the wake addresses are served, on loopback.
	Web net.Listener

	// Token gives the bearer token of the webhook, read anew for each call; nil
	// closes the webhook. Its error must not hold the token.
	Token func(context.Context) (string, error)

	// Reload, where set, is asked ten seconds after the last time which agents are
	// to be served from then on, all of them; changed is false where they are the
	// same. One that is the very Agent served already is not disturbed.
	Reload func() (agents []*cycle.Agent, changed bool)

	// ScanEvery stands in for those ten seconds; 0: they stay.
	ScanEvery time.Duration

	Pipe string // path of a named pipe, made if it is not there; "" for none

	Secrets *secret.Known // kept out of crash reports; nil: none are known

	// Logf is told, a line each, of trouble and of its end; it is called by
	// several goroutines at once.
	Logf func(format string, args ...any)

	// Ready is called once, when everything that can wake is in place; Alive
	// again and again, as long as the listener is not stuck. Both may be nil.
	Ready, Alive func()

	pollSlots    chan struct{}
	nudgeWatcher *nudgeWatcher
	web          *webServer
	running      sync.WaitGroup // all but the posts' own goroutines

	mu        sync.Mutex
	serving   []*servedAgent
	mailboxes map[string]*mailboxWatch // by the id of the box
}

// Run listens until ctx ends, and returns nil then. An agent that another
// listener serves is left to it, which is told; if there is no other, it is
// ErrTaken.
func (l *Listener) Run(ctx context.Context) error {
	l.pollSlots = make(chan struct{}, maxPolls)
	l.mailboxes = map[string]*mailboxWatch{}
	agents, err := l.claimAll()
	defer func() {
		for _, p := range agents {
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
	l.nudgeWatcher = l.newNudgeWatcher()
	defer l.nudgeWatcher.close()

	l.web = newWeb(l)
	for _, p := range agents {
		l.start(ctx, p)
	}
	server := l.web.server()
	l.running.Go(l.Secrets.Guarded(func() { server.Serve(l.Web) }))
	l.running.Go(l.Secrets.Guarded(func() { shutDown(ctx, server) }))
	l.running.Go(l.Secrets.Guarded(func() { l.nudgeWatcher.watch(ctx) }))
	if pipe != nil {
		l.running.Go(l.Secrets.Guarded(func() { pipe.read(ctx) }))
	}
	if l.Ready != nil {
		l.Ready()
	}
	l.scan(ctx)
	l.running.Wait()
	agents = l.served()
	return nil
}

// scan looks again and again at what a wake may have been missed for, and for
// whom.
func (l *Listener) scan(ctx context.Context) {
	slow, quick := time.NewTicker(cmp.Or(l.ScanEvery, scanEvery)), time.NewTicker(time.Second)
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
				if p.unwatched {
					p.check()
				}
			}
		case <-slow.C:
			l.reload(ctx)
			for _, p := range l.served() {
				p.unwatched = l.nudgeWatcher.add(p) != nil
				p.check()
			}
		}
		if l.Alive != nil {
			l.Alive()
		}
	}
}
