package listen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"agentstateloop/cron/timer"
	"agentstateloop/cycle"
	"agentstateloop/internal/secret"
)

// ErrRunning reports that all agents are already served by other listeners.
var ErrRunning = errors.New("another listener is already running")

const (
	// scanEvery is the default of Listener.ScanEvery. A scan looks for missed items and for
	// turns without a runner.
	scanEvery = 10 * time.Second

	// maxPolls limits the concurrent polls of all agents. One mail to a mailbox shared by
	// hundreds of agents must not open hundreds of connections.
	maxPolls = 8
)

// Listener serves agents. Its exported fields are set before Run.
type Listener struct {
	Agents []*cycle.Agent

	// Web is the loopback listener for the webhook and the wake addresses.
	Web net.Listener

	// Token returns the bearer token of the webhook. It is called for each request. nil closes
	// the webhook. Its error must not contain the token.
	Token func(context.Context) (string, error)

	// Page, if set, returns the handler of the page: of GET /, of /page/ and of GET /metrics. running
	// ends with the listener. The handler checks by itself who calls.
	Page func(running context.Context, agents func() []Shown) http.Handler

	// Reload, if set, is called at each scan and returns all agents to serve from then on.
	// changed is false if they are the same as before. An agent that is already served, by the
	// same pointer, goes on undisturbed.
	Reload func() (agents []*cycle.Agent, changed bool)

	// ScanEvery is the time between two scans. 0 means ten seconds.
	ScanEvery time.Duration

	// Heartbeat is the time after which a silent stream of events sends a heartbeat. 0 means
	// fifteen seconds.
	Heartbeat time.Duration

	// Pipe is the path of a named pipe; "" without a pipe. A missing one is created, and removed at
	// the end of Run (see pipeRecord).
	Pipe string

	// Fixed means that Reload never adds an agent. Then Run ends when `uninstall --purge` has
	// removed the last one.
	Fixed bool

	Secrets *secret.Known // kept out of crash reports; nil without secrets

	// Logf logs one line about a problem or its end. It is called concurrently.
	Logf func(format string, args ...any)

	// Ready is called once, as soon as every source is watched. Alive is called repeatedly
	// unless the listener is stuck. Both may be nil.
	Ready, Alive func()

	pollSlots    chan struct{}
	removal      chan struct{} // holds one value: an agent is being removed
	pipe         *pipe         // nil without a pipe
	nudgeWatcher *nudgeWatcher
	web          *webServer
	running      sync.WaitGroup // all goroutines except those of a servedAgent

	removed map[*cycle.Agent]bool // agents that `uninstall --purge` took away; used only by scan

	mu        sync.Mutex
	serving   []*servedAgent
	mailboxes map[string]*mailboxWatch // by the mailbox's id
}

// Shown is an agent of a listener, for its page. Poll requests a poll.
type Shown struct {
	Agent *cycle.Agent
	Poll  func()
}

// Run listens until ctx ends, and then returns nil. It skips the agents of other listeners, and
// logs them. It returns ErrRunning if no agent is left.
func (l *Listener) Run(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	l.pollSlots, l.removal, l.removed = make(chan struct{}, maxPolls), make(chan struct{}, 1), map[*cycle.Agent]bool{}
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
	if l.pipe, err = l.openPipe(agents); err != nil {
		return err
	}
	defer l.pipe.remove()
	l.nudgeWatcher = l.newNudgeWatcher()
	defer l.nudgeWatcher.close()

	l.web = newWeb(ctx, l)
	for _, p := range agents {
		l.start(ctx, p)
	}
	server := l.web.server()
	l.running.Go(l.Secrets.Guarded(func() { server.Serve(l.Web) }))
	l.running.Go(l.Secrets.Guarded(func() { shutDown(ctx, server) }))
	l.running.Go(l.Secrets.Guarded(func() { l.nudgeWatcher.watch(ctx) }))
	if l.pipe != nil {
		l.running.Go(l.Secrets.Guarded(func() { l.pipe.read(ctx) }))
	}
	if l.Ready != nil {
		l.Ready()
	}
	l.scan(ctx)
	end() // the last agent may have been removed
	l.running.Wait()
	agents = l.served()
	return nil
}

// scan looks for missed items until ctx ends, and reloads the list of agents. It checks agents
// with an unwatched nudges/ more often. It stops serving an agent that is being removed.
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
		case <-l.removal:
			if l.leaveRemoved() {
				return
			}
		case <-quick.C:
			for _, p := range l.served() {
				if p.unwatched {
					p.check()
					l.noticeRemoval(p)
				}
			}
		case <-slow.C:
			l.reload(ctx)
			for _, p := range l.served() {
				p.unwatched = l.nudgeWatcher.add(p) != nil
				p.check()
				l.noticeRemoval(p)
			}
		}
		if l.Alive != nil {
			l.Alive()
		}
	}
}

// The states reported to systemd (sd_notify(3)).
const (
	Ready    = "READY=1"
	Alive    = "WATCHDOG=1"
	Stopping = "STOPPING=1"
)

// Notify reports state to systemd. socket is the value of $NOTIFY_SOCKET; if it is "", Notify
// does nothing.
func Notify(socket, state string) error {
	if socket == "" {
		return nil
	}
	if name, abstract := strings.CutPrefix(socket, "@"); abstract {
		socket = "\x00" + name
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(state)); err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	return nil
}

// Unit returns a systemd user unit that runs argv. Stopping the unit ends only the listener's
// own process, so turns survive a restart.
func Unit(argv []string) string {
	return `[Unit]
Description=agentStateLoop: wake agents at once
After=network-online.target

[Service]
Type=notify
ExecStart=` + timer.ExecStart(argv) + `
Restart=always
RestartSec=5
WatchdogSec=60
KillMode=process

[Install]
WantedBy=default.target
`
}
