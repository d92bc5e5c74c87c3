package simulator

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"text/template"
	"time"

	"agentstateloop/cron"
	"agentstateloop/cycle"
	"agentstateloop/internal/testkit"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail"
	"agentstateloop/mail/trust"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
)

// The names in a story.
const (
	handle   = "goulard3120"
	operator = "operator@example.com"
	address  = "artificer3120@example.org"
	config   = "/home/you/.config/agentstateloop/agent.toml"
	binary   = "/usr/local/bin/agentstateloop"

	password      = "correct horse 5512"
	wrongPassword = "battery staple 9061"
	wrongToken    = "nobody-7731"
)

// meshTokens are the tokens on the mesh: ours and that of the first peer.
var meshTokens = map[string]string{handle: "ours-8842", peers[0]: "theirs-2094"}

// peers are the agents in [mesh] peers. The first is the keymaster.
var peers = []string{"dorlange3120", "sister3120"}

// networkTimeout limits one network phase. A stall costs that much real time.
const networkTimeout = time.Second

// maxProcesses limits the concurrent processes of the agent.
const maxProcesses = 4

// World is the environment of one agent, with a record of the events.
type World struct {
	dir       string
	clock     clock
	rng       *rand.Rand // decides the losses of a power cut; the story decides everything else
	disk      *disk
	snapshots *snapshots // nil in a story without rollbacks
	count     *counters
	record    *record

	story    Story
	provider provider
	calmed   bool // the provider has no further outages

	promptPolls []promptPoll
	asked       int // programs of prompts

	hooks   []*listener
	mail    *mailtest.Servers
	mesh    *mesh.Server // over HTTP
	http    *http.Server
	nats    *natsMesh // or over NATS
	inlets  map[string]*inlet
	crontab *userCrontab

	all   []*slot
	slots chan *slot // the free ones

	mu       sync.Mutex
	agents   []*livingAgent
	outages  map[string]int // the number of further processes that each outage lasts
	powerOff bool
	inside   []Fault // strike the next command that an agent calls
	current  settings
	broken   *Violation
	log      []string

	strikes     atomic.Int64 // faults that have struck
	rung        atomic.Bool  // a nudge came while a process was working
	undisturbed atomic.Bool  // the last process was an undisturbed poll

	// restful is set while the crontab is as an undisturbed poll left it. Then the rows with a
	// time are known.
	restful atomic.Bool
}

// settings are those in agent.toml that change during a story.
type settings struct {
	rate    int           // mails of the operator in an hour; 0 = any
	collect time.Duration // [turn] collect
	longest time.Duration // the longest value
	prompts []ClockPrompt
}

// settings returns those of now.
func (w *World) settings() settings {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.current
}

// Violation is a broken promise.
type Violation struct {
	Promise string // its number in docs/design.md, "Promises", or the name of another rule
	What    string
}

func (v Violation) String() string { return fmt.Sprintf("promise %s: %s", v.Promise, v.What) }

func newWorld(dir string, s Story, begin time.Time) (*World, error) {
	w := &World{
		dir: dir, story: s, current: settings{prompts: s.Prompts}, rng: rand.New(rand.NewPCG(uint64(s.Seed), 1)), hooks: newListeners(),
		count: &counters{Counts: Counts{Points: map[string]int{}, Sometimes: map[string]int{}}},
		clock: clock{clockFace: clockFace{true: begin}}, outages: map[string]int{}, slots: make(chan *slot, maxProcesses),
		inlets: map[string]*inlet{"imap": newInlet(), "smtp": newInlet()},
	}
	if s.Carrier == OverNATS {
		w.nats = newNATSMesh(w)
	}
	w.record = newRecord(w)
	if w.nats == nil {
		w.inlets["http"] = newInlet()
		w.mesh = mesh.NewServer(mesh.Options{Open: true, Tokens: meshTokens, Now: w.clock.servers})
		w.http = &http.Server{Handler: w.record.watchMesh(w.mesh)}
		go w.http.Serve(w.inlets["http"])
	}
	for _, d := range []string{w.stateDir(), filepath.Join(dir, "spare")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return nil, err
		}
	}
	w.disk = newDisk(w.stateDir(), filepath.Join(dir, "spare"))
	if s.Rollbacks {
		w.snapshots = &snapshots{root: filepath.Join(dir, "snapshots")}
	}
	var err error
	if w.crontab, err = newCrontab(dir); err != nil {
		return nil, err
	}
	if err := testkit.WriteProgram(w.detached(), "#!/bin/sh\n: >\"$0.started\"\n"); err != nil {
		return nil, err
	}
	w.mail, err = mailtest.Start(dir, mailtest.Options{
		Username: address, Password: password,
		OnMail:     w.refuses("smtp-451", notNow, "a submission server said 451"),
		OnRcpt:     w.refuses("smtp-550", noMailbox, "a recipient was refused for good"),
		OnData:     func(_ net.Conn, raw []byte) error { return w.receiveSent(raw) },
		SpecialUse: s.Sent == SentByServer,
	})
	if err != nil {
		return nil, err
	}
	if err := w.mail.CreateSent(sentFolder); err != nil {
		return nil, err
	}
	go w.mail.ServeIMAP(w.inlets["imap"])
	go w.mail.ServeSMTP(w.inlets["smtp"])
	for range maxProcesses {
		s, err := w.newSlot()
		if err != nil {
			w.close()
			return nil, err
		}
		w.all = append(w.all, s)
		w.slots <- s
	}
	return w, nil
}

func (w *World) close() {
	for _, s := range w.all {
		s.close()
	}
	w.mail.Close()
	if w.http != nil {
		w.http.Close()
	}
	for _, i := range w.inlets {
		i.Close()
	}
	w.killAgents()
}

func (w *World) stateDir() string { return filepath.Join(w.dir, "state") }

// detached returns the program that replaces a detached poll. It only creates a file.
func (w *World) detached() string { return filepath.Join(w.dir, "detached") }

// newAgent wires the agent of one process, as package commands does.
func (w *World) newAgent(p *process) *cycle.Agent {
	now := w.settings()
	secret := func(right, wrong string, outages ...string) func(context.Context) (string, error) {
		return func(context.Context) (string, error) {
			if slices.ContainsFunc(outages, w.down) {
				return wrong, nil
			}
			return right, nil
		}
	}
	imap := mail.Server{
		Addr: p.slot.addr("imap"), TLS: mail.TLSNone, Username: address, Timeout: networkTimeout,
		Secret: secret(password, wrongPassword, "password", "imap-password"),
	}
	smtp := imap
	smtp.Addr, smtp.Secret = p.slot.addr("smtp"), secret(password, wrongPassword, "password", "smtp-password")
	program := &turn.Config{Runner: turn.Exec, Command: []string{"agent"}, Workdir: w.dir}
	reply := func(text string) *template.Template { return template.Must(template.New("").Parse(text)) }
	a := &cycle.Agent{
		Handle: handle, Config: config,
		Store: &store.Store{Dir: w.stateDir(), Agent: handle, Hook: p.hook},
		Policy: state.Policy{
			IdleInterval: 30 * time.Minute, EngagedInterval: time.Minute,
			PrepTimeout: 5 * time.Minute, ActiveTimeout: 10 * time.Minute, Cooldown: 5 * time.Minute,
			Location: w.clock.machine().Location(), HasMail: true, HasMesh: true, Operator: operator, Keymaster: peers[0],
			Peers: peers, Login: program.Login(), Challenge: true, Budget: budget,
			Ack: true, AckAfter: w.story.AckAfter, QuietPrep: true, QuietActive: true, Notices: true, Working: true,
			Turns: true, SelfTurns: selfTurns, MaxAttempts: 3, Rate: now.rate, EventRate: eventRate,
			Collect: now.collect, PacesMesh: w.nats != nil, ByThread: w.story.ByThread, Copies: w.story.Copies,
		},
		Mail: &cycle.Mail{
			Mailbox: mail.Mailbox{Server: imap, Name: "INBOX", Now: w.clock.machine}, SMTP: smtp, Address: address,
			Filter: trust.Filter{
				Handle: handle, Operators: []string{operator}, Own: address,
				Require: trust.RequireDMARC, AuthservID: authserv, Fallback: true,
			},
		},
		Mesh: w.newMesh(p, secret),
		Schedule: cycle.Schedule{Mode: cycle.ModeCrontab, Binary: binary, Table: cron.Table{
			Command: w.crontab.command, Run: w.crontab.run, Lock: filepath.Join(w.dir, "crontab.lock"), Backup: filepath.Join(w.dir, "backup"),
		}},
		Turn: program, Rights: rights,
		Replies: cycle.Replies{
			Ack: reply("{{.Handle}} standing by. what do you need?"), QuietPrep: reply("going quiet"),
			QuietActive: reply("going quiet -- ping me when you need me"),
		},
		Self:    []string{w.detached()}, // a detached poll; the next poll of cron does the same work
		Now:     w.clock.machine,
		RunTurn: p.attempt,
		Step:    w.story.StepState,
	}
	if w.story.Copies {
		a.Replies.Sent = sentFolder
	}
	w.configureBackends(a)
	p.configureHooks(a)
	p.configurePrompts(a, now.prompts)
	return a
}

// newMesh wires the mesh of one process. Over HTTP trust.mesh is "open", and over NATS
// both peers have a key.
func (w *World) newMesh(p *process, secret func(right, wrong string, outages ...string) func(context.Context) (string, error)) *cycle.Mesh {
	if w.nats == nil {
		return &cycle.Mesh{
			Carrier: &mesh.Client{
				URL: "http://" + p.slot.addr("http"), Handle: handle, Timeout: networkTimeout,
				Token: secret(meshTokens[handle], wrongToken, "token"),
			},
			Handle: handle, Peers: peers, Open: true,
		}
	}
	return &cycle.Mesh{Carrier: w.nats.carrier(p), Handle: handle, Peers: peers, Paces: true}
}

// depth returns the number of processes that exist now.
func (w *World) depth() int { return cap(w.slots) - len(w.slots) }

// losePower kills every process. powerOn decides the losses, after all processes have ended.
func (w *World) losePower() {
	w.mu.Lock()
	w.powerOff = true
	w.mu.Unlock()
	for _, s := range w.all {
		s.mu.Lock()
		p := s.user
		s.mu.Unlock()
		if p != nil {
			p.die()
		}
	}
}

// powerOn starts the machine again after losePower.
func (w *World) powerOn() {
	w.mu.Lock()
	off := w.powerOff
	w.powerOff = false
	w.mu.Unlock()
	if !off {
		return
	}
	w.killAgents()
	lost, err := w.disk.losePower(w.rng)
	if err != nil {
		w.violate("simulator", "power cut: %v", err)
	}
	for _, t := range lost {
		w.logf("  ! lost: %s", t)
		if strings.Contains(t, "nudges/") {
			w.record.mu.Lock()
			w.record.nudgeBack = true
			w.record.mu.Unlock()
		}
		w.count.happened("a power cut lost something")
	}
}

// down reports whether something is down.
func (w *World) down(what string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.outages[what] > 0
}

// passOutages shortens every outage by one process.
func (w *World) passOutages() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for what := range w.outages {
		if w.outages[what]--; w.outages[what] <= 0 {
			delete(w.outages, what)
		}
	}
}

// sweep lets the others on the mesh over NATS read their mailboxes.
func (w *World) sweep() {
	if w.nats == nil || w.down("box-full") {
		return
	}
	for _, peer := range peers {
		w.nats.Drain(peer)
	}
}

// mailWaits reports whether the mesh over NATS has something for us. Over HTTP a poll
// takes all of it.
func (w *World) mailWaits() bool { return w.nats != nil && len(w.nats.left()) > 0 }

// violate records the first broken promise.
func (w *World) violate(promise, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken == nil {
		w.broken = &Violation{Promise: promise, What: fmt.Sprintf(format, args...)}
	}
}

func (w *World) over() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.broken != nil
}

// logf adds a line to the log of the run.
func (w *World) logf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, fmt.Sprintf(format, args...))
}
