package fleetsim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/internal/testkit/memcarrier"
	"agentstateloop/mesh"
)

// process is one process of the agent: a goroutine, or several, that end together when it is killed.
// World.mu guards the fields after "killed".
type process struct {
	host   *host
	name   string
	agent  *cycle.Agent
	ctx    context.Context
	cancel context.CancelFunc
	killed chan struct{}

	rng     *rand.Rand
	dead    bool
	stopped chan struct{} // closed when it goes on; nil while it is not stopped
	life    *life         // the agent that it follows
	conns   []net.Conn
}

// errKilled is the result of a process that was killed.
var errKilled = errors.New("killed")

// wait runs a process to its end.
func (h *host) wait(name string, do func(p *process) error) error {
	w := h.world
	w.mu.Lock()
	w.started++
	p := &process{
		host: h, name: fmt.Sprintf("%s.%s.%d", h.id, name, w.started), killed: make(chan struct{}),
		rng: newRand(w.story.Seed, uint64(1000+w.started)),
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	w.processes[p.name] = p
	h.running = append(h.running, p)
	w.mu.Unlock()
	p.agent = h.newAgent(p)
	err := errKilled
	done := make(chan struct{})
	go func() {
		defer close(done)
		got := do(p)
		p.agent.Close()
		err = got
	}()
	<-done
	p.cancel()
	w.mu.Lock()
	h.running = slices.DeleteFunc(h.running, func(o *process) bool { return o == p })
	conns := p.conns
	if !p.dead { // its other goroutines end with it
		p.dead = true
		close(p.killed)
	}
	w.mu.Unlock()
	for _, c := range conns {
		c.Close()
	}
	return err
}

// die kills the process. Each of its goroutines ends at its next point.
func (p *process) die(why string) {
	p.host.world.mu.Lock()
	if p.dead {
		p.host.world.mu.Unlock()
		return
	}
	p.dead = true
	conns := p.conns
	p.host.world.mu.Unlock()
	p.host.world.logf("%s is killed: %s", p.name, why)
	p.cancel()
	close(p.killed)
	for _, c := range conns {
		c.Close()
	}
}

// stop stops the process, as SIGSTOP does. Its boot clock runs on.
func (p *process) stop() {
	p.host.world.logf("%s is stopped", p.name)
	p.host.world.mu.Lock()
	defer p.host.world.mu.Unlock()
	if p.stopped == nil {
		p.stopped = make(chan struct{})
	}
}

// goOn ends a stop.
func (p *process) goOn() {
	p.host.world.mu.Lock()
	defer p.host.world.mu.Unlock()
	if p.stopped != nil {
		close(p.stopped)
		p.stopped = nil
	}
}

// breathe waits while the process cannot run, and ends the goroutine if the process is dead.
func (p *process) breathe() {
	for {
		p.host.world.mu.Lock()
		dead, gate := p.dead, p.stopped
		if gate == nil {
			gate = p.host.wake
		}
		p.host.world.mu.Unlock()
		switch {
		case dead:
			runtime.Goexit()
		case gate == nil:
			return
		}
		select {
		case <-gate:
		case <-p.killed:
		}
	}
}

// point is called before each step that a fault can strike. failed is set if the step must fail.
func (p *process) point(site string) (failed bool) {
	p.breathe()
	failed = p.strike(site)
	p.breathe()
	return failed
}

// strike lets a fault of the story happen here.
func (p *process) strike(site string) (failed bool) {
	w := p.host.world
	w.mu.Lock()
	f := w.faults.at(p, site)
	w.mu.Unlock()
	if f == nil {
		return false
	}
	w.happened(string(f.Do) + " at a point")
	w.logf("%s: %s before %q", p.name, f.Do, site)
	switch f.Do {
	case KillAt:
		p.die("at " + site)
	case StopAt:
		p.stop()
		time.AfterFunc(f.For, p.goOn)
	case SleepAt:
		p.host.sleep()
		time.AfterFunc(f.For, func() { p.host.wakeUp(f.Late) })
	case PowerAt:
		go p.host.outOfPower(f.For)
		<-p.killed
	}
	return f.Do == FailAt
}

// outOfPower cuts the power for a while.
func (h *host) outOfPower(d time.Duration) {
	h.powerOff()
	select {
	case <-time.After(d):
		h.powerOn()
	case <-h.over:
	}
}

// hook is the Hook of the store.
func (p *process) hook(step, path string) error {
	name, err := filepath.Rel(p.host.dir, path)
	if err != nil {
		name = path
	}
	if p.point(step + " " + name) {
		return fmt.Errorf("%s %s: %w", step, path, syscall.ENOSPC)
	}
	return nil
}

// clock is the boot clock.
func (p *process) clock() (id string, now time.Duration, err error) {
	p.breathe()
	id, now = p.host.bootClock()
	return id, now, nil
}

// carry makes a call of the mesh.
func (p *process) carry(c memcarrier.Call, do func() error) error {
	w := p.host.world
	if c.Name == "announce" { // in a goroutine of its own
		return errNoNetwork
	}
	if c.Name == "send" {
		p.breathe()
	} else {
		p.point("mesh " + c.Name)
	}
	time.Sleep(p.latency())
	p.breathe()
	w.mu.Lock()
	cut, down := p.host.cut, w.faults.down
	w.mu.Unlock()
	if cut.requests || down {
		time.Sleep(time.Second)
		return errNoNetwork
	}
	if c.Name == "send" {
		w.record.meshSends(p, c.Message)
	}
	err := do()
	if err == nil && c.Name == "send" {
		w.record.meshSent(p, c.Message)
	}
	if cut.answers {
		time.Sleep(time.Second)
		return errNoNetwork
	}
	p.point("mesh " + c.Name + " answer")
	return err
}

// carrier is the mesh, as one process sees it.
type carrier struct {
	*memcarrier.Carrier
	process *process
}

// Send fails after the end of ctx, as over a real connection.
func (c carrier) Send(ctx context.Context, m mesh.Message) (string, error) {
	c.process.point("post")
	if ctx.Err() != nil {
		return "", &mesh.Error{Op: "send message", Err: context.Cause(ctx)}
	}
	return c.Carrier.Send(ctx, m)
}

// latency returns how long a request takes.
func (p *process) latency() time.Duration {
	return time.Millisecond + time.Duration(p.pick(20_000))*time.Microsecond
}

// inlet is a listener without a port.
type inlet struct {
	conns chan net.Conn
	done  chan struct{}
}

func newInlet() inlet { return inlet{make(chan net.Conn), make(chan struct{})} }

func (i inlet) Accept() (net.Conn, error) {
	select {
	case c := <-i.conns:
		return c, nil
	case <-i.done:
		return nil, net.ErrClosed
	}
}

func (i inlet) Close() error {
	select {
	case <-i.done:
	default:
		close(i.done)
	}
	return nil
}

func (i inlet) Addr() net.Addr { return loopback }

var loopback = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}

// link is an end of a connection.
type link struct {
	net.Conn
	process *process
}

func (link) LocalAddr() net.Addr  { return loopback }
func (link) RemoteAddr() net.Addr { return loopback }

// dial returns the Dial of a mail server.
func (p *process) dial(to inlet) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		p.point("dial mail")
		w := p.host.world
		w.mu.Lock()
		cut := p.host.cut.mail || p.dead
		w.mu.Unlock()
		if cut {
			time.Sleep(time.Second)
			return nil, errors.New("no route to host")
		}
		ours, theirs := net.Pipe()
		w.mu.Lock()
		p.conns = append(p.conns, ours, theirs)
		w.mu.Unlock()
		select {
		case to.conns <- link{theirs, p}:
			return link{ours, p}, nil
		case <-to.done:
			return nil, net.ErrClosed
		}
	}
}
