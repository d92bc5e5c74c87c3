package fleetsim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/fleet/seat"
	"agentstateloop/internal/testkit/memcarrier"
	"agentstateloop/mail"
	"agentstateloop/mail/trust"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

var hostNames = []string{"alpha", "beta", "gamma"}

// host is one machine. World.mu guards its fields after "over".
type host struct {
	world *World
	name  string // in the fleet; a copy of a machine may have the name of another one
	id    string // unique
	dir   string
	clock Clock

	over chan struct{} // closed at the end of the story

	boot   int           // number of its boot
	booted time.Duration // true time of that boot
	wall   time.Duration // how wrong its wall clock is
	off    bool          // without power
	asleep bool
	wake   chan struct{} // closed when it wakes; nil while it is awake
	tick   chan struct{} // closed to let cron count its minute again
	cut    cut
	stale  int // reads lag by up to so many writes

	running []*process
	agents  []*life
	backup  string // a copy of dir
}

// cut is the lost part of the network of a host.
type cut struct{ requests, answers, mail bool }

func (w *World) addHost(name string, c Clock) (*host, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := &host{world: w, name: name, clock: c, over: make(chan struct{}), tick: make(chan struct{}), booted: w.now(), wall: c.Wall}
	h.id = name
	for slices.ContainsFunc(w.hosts, func(o *host) bool { return o.id == h.id }) {
		h.id += "'"
	}
	h.dir = filepath.Join(w.dir, fmt.Sprint(len(w.hosts)), "state")
	if err := os.MkdirAll(filepath.Dir(h.dir), 0o700); err != nil {
		return nil, err
	}
	w.hosts = append(w.hosts, h)
	return h, nil
}

// bootClock returns the boot clock of the machine.
func (h *host) bootClock() (id string, now time.Duration) {
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	passed := h.world.now() - h.booted
	return fmt.Sprintf("%s-%d", h.id, h.boot), time.Hour + time.Duration(float64(passed)*h.clock.Rate)
}

// wallClock returns the wall clock of the machine.
func (h *host) wallClock() time.Time {
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	return h.world.wall().Add(h.wall)
}

// cron starts a poll each minute while the machine runs.
func (h *host) cron() {
	first := time.Duration(float64(time.Minute) * h.clock.Phase)
	for {
		h.world.mu.Lock()
		tick := h.tick
		h.world.mu.Unlock()
		timer := time.NewTimer(first)
		select {
		case <-h.over:
			timer.Stop()
			return
		case <-tick: // it woke or started: cron counts its minute again
			timer.Stop()
			continue
		case <-timer.C:
		}
		first = time.Minute
		h.world.mu.Lock()
		runs := !h.off && !h.asleep && len(h.running) < 8
		h.world.mu.Unlock()
		if runs {
			go h.poll(cycle.PollOptions{IfDue: true})
		}
	}
}

// poll runs one poll to its end.
func (h *host) poll(o cycle.PollOptions) {
	err := h.wait("poll", func(p *process) error {
		_, err := p.agent.Poll(p.ctx, o)
		return err
	})
	h.world.polled(h, err)
}

// sleep stops the machine: its boot clock runs on.
func (h *host) sleep() {
	h.world.logf("%s falls asleep", h.id)
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	if h.off || h.asleep {
		return
	}
	if h.asleep = true; h.wake == nil {
		h.wake = make(chan struct{})
	}
	for _, a := range h.agents {
		a.pause()
	}
}

// wakeUp ends the sleep. Agents go on at once, and the timers of processes fire later, by up to
// half a second.
func (h *host) wakeUp(late time.Duration) {
	h.world.mu.Lock()
	if !h.asleep {
		h.world.mu.Unlock()
		return
	}
	h.asleep = false
	wake := h.wake
	for _, a := range h.agents {
		a.goOn()
	}
	h.countAgain()
	h.world.mu.Unlock()
	h.world.logf("%s wakes", h.id)
	time.Sleep(late)
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	if h.wake == wake && !h.asleep { // it may have lost its power, or sleep again
		h.wake = nil
		close(wake)
	}
}

func (h *host) countAgain() {
	close(h.tick)
	h.tick = make(chan struct{})
}

// powerOff ends everything on the machine.
func (h *host) powerOff() {
	h.world.logf("%s loses its power", h.id)
	h.world.mu.Lock()
	h.off = true
	h.asleep = false
	wake := h.wake
	h.wake = nil
	h.world.mu.Unlock()
	h.killAll("power")
	if wake != nil {
		close(wake)
	}
}

// powerOn starts the machine again.
func (h *host) powerOn() {
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	if !h.off {
		return
	}
	h.off = false
	h.boot++
	h.booted = h.world.now()
	h.countAgain()
}

// killAll ends all processes of the machine, and all agents.
func (h *host) killAll(why string) {
	h.world.mu.Lock()
	running, agents := slices.Clone(h.running), slices.Clone(h.agents)
	h.world.mu.Unlock()
	for _, p := range running {
		p.die(why)
	}
	for _, a := range agents {
		a.kill(why)
	}
}

// newAgent wires the agent of one process, as package commands does.
func (h *host) newAgent(p *process) *cycle.Agent {
	w := h.world
	server := func(to inlet) mail.Server {
		return mail.Server{
			Addr: "127.0.0.1:1", TLS: mail.TLSNone, Username: address, Timeout: 10 * time.Second, Dial: p.dial(to),
			Secret: func(context.Context) (string, error) { return password, nil },
		}
	}
	st := &store.Store{Dir: h.dir, Agent: handle, Hook: p.hook}
	s := &seat.Seat{
		Handle: handle, Host: h.name, Program: "test", Lease: lease, Auto: true, Store: st, Engine: engine{w.servers.Host(p.name), p},
		Names: cycle.NamedFiles(st), Clock: p.clock, Now: h.wallClock, NewID: store.NewID,
	}
	st.Arbiter = s
	program := &turn.Config{Runner: turn.Exec, Command: []string{"agent"}, Workdir: w.dir}
	a := &cycle.Agent{
		Handle: handle, Config: "/etc/agent.toml", Store: st, Seat: s,
		Policy: state.Policy{
			IdleInterval: 3 * time.Minute, EngagedInterval: time.Minute, PrepTimeout: 2 * time.Minute, ActiveTimeout: 2 * time.Minute,
			Cooldown: time.Minute, Location: time.UTC, Fleet: true, HasMail: true, HasMesh: true, Operator: operator, Peers: []string{peer},
			Login: program.Login(), Turns: true, SelfTurns: 8, MaxAttempts: 40, PacesMesh: true,
		},
		Mail: &cycle.Mail{
			Mailbox: mail.Mailbox{Server: server(w.imap), Name: "INBOX", Now: h.wallClock}, SMTP: server(w.smtp), Address: address,
			Filter: trust.Filter{Handle: handle, Operators: []string{operator}, Own: address, Require: trust.RequireFrom},
		},
		Mesh: &cycle.Mesh{
			Carrier: carrier{&memcarrier.Carrier{Mesh: w.mesh, Handle: handle, Host: h.name, Hook: p.carry}, p},
			Handle:  handle, Peers: []string{peer}, Paces: true,
		},
		Schedule: cycle.Schedule{Mode: cycle.ModeFixed, EveryMinute: true},
		Turn:     program,
		Self:     []string{"/bin/true"}, // a detached poll; cron starts another one
		Now:      h.wallClock,
		RunTurn:  p.attempt,

		CheckEvery: 3 * time.Second,
		EndTurn:    p.endTurn,
	}
	s.Evict = a.Evict
	return a
}

// pick returns a random number of the process below n.
func (p *process) pick(n int) int {
	p.host.world.mu.Lock()
	defer p.host.world.mu.Unlock()
	return p.rng.IntN(n)
}

func newRand(seed int64, part uint64) *rand.Rand { return rand.New(rand.NewPCG(uint64(seed), part)) }

// errNoNetwork is the error of a mesh call without a network.
var errNoNetwork = &mesh.Error{Op: "call", Err: fmt.Errorf("no network")}
