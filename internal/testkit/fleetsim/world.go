package fleetsim

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/internal/testkit/memcarrier"
	"agentstateloop/internal/testkit/memfleet"
)

// The names in a story.
const (
	handle   = "goulard3120"
	operator = "operator@example.com"
	address  = "artificer3120@example.org"
	password = "correct horse 5512"
	peer     = "dorlange3120"
)

// lease is [fleet] lease.
const lease = 150 * time.Second

// World is one agent, its hosts and its surroundings, with a record of the events.
type World struct {
	dir   string
	story Story
	begin time.Time // of the story, by the true clock
	count map[string]int

	servers *memfleet.Server
	mesh    *memcarrier.Mesh
	mail    *mailtest.Servers
	imap    inlet
	smtp    inlet

	mu        sync.Mutex
	hosts     []*host
	processes map[string]*process // by the name of their client
	started   int
	faults    faults
	truth     truth
	record    record
	broken    string
	log       []string
}

// Outcome is the result of a run.
type Outcome struct {
	Broken string // the first broken promise, or ""
	Log    []string
	Count  map[string]int
	Time   time.Duration // that passed in the world
}

// Play plays a story below dir, an empty directory, in a bubble of testing/synctest.
func Play(dir string, s Story) (Outcome, error) {
	w := &World{
		dir: dir, story: s, begin: time.Now(), count: map[string]int{}, processes: map[string]*process{},
		imap: newInlet(), smtp: newInlet(),
	}
	w.servers = &memfleet.Server{Now: w.wall, Hook: w.call}
	w.mesh = memcarrier.New(w.wall)
	w.truth.world, w.record.world = w, w
	var err error
	if w.mail, err = mailtest.New(mailtest.Options{Username: address, Password: password, OnData: w.sent}); err != nil {
		return Outcome{}, err
	}
	go w.mail.ServeIMAP(w.imap)
	go w.mail.ServeSMTP(w.smtp)
	for i := range s.Hosts {
		if _, err := w.addHost(hostNames[i], s.Clocks[i]); err != nil {
			return Outcome{}, err
		}
	}
	w.play()
	w.end()
	return Outcome{Broken: w.broken, Log: w.log, Count: w.count, Time: w.now()}, nil
}

// end ends every process and server, so that the bubble can end.
func (w *World) end() {
	w.mu.Lock()
	hosts := w.hosts
	w.mu.Unlock()
	for _, h := range hosts {
		close(h.over)
		h.killAll("the story is over")
	}
	w.imap.Close()
	w.smtp.Close()
	w.mail.Close()
	time.Sleep(time.Minute) // goroutines of dead processes reach their next point
}

// now returns the true time since the story began.
func (w *World) now() time.Duration { return time.Since(w.begin) }

// epoch is the date of the beginning.
var epoch = time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)

// wall returns the true date.
func (w *World) wall() time.Time { return epoch.Add(w.now()) }

// violate records the first broken promise.
func (w *World) violate(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.logf("BROKEN: %s", text)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken == "" {
		w.broken = text
	}
}

func (w *World) over() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.broken != ""
}

// logf adds a line to the log of the run.
func (w *World) logf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, fmt.Sprintf("%8.2f  ", w.now().Seconds())+fmt.Sprintf(format, args...))
}

// happened counts an event.
func (w *World) happened(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count[what]++
}

// setUp puts the agent on the first host into the fleet, and the other hosts after it.
func (w *World) setUp() error {
	for _, h := range w.hosts {
		err := h.wait("join", func(p *process) error {
			_, err := p.agent.Seat.Join(p.ctx, false)
			return err
		})
		if err == nil && h == w.hosts[0] {
			// The first poll sets the baseline of the mailbox.
			err = h.wait("poll", func(p *process) error {
				_, err := p.agent.Poll(p.ctx, cycle.PollOptions{})
				return err
			})
		}
		if err != nil {
			return fmt.Errorf("%s: %w", h.name, err)
		}
		go h.cron()
	}
	return nil
}

// copyTree copies a state directory, as cp -a does.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		if e.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		if !e.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if err := os.WriteFile(target, data, 0o600); err != nil {
			return err
		}
		return os.Chtimes(target, info.ModTime(), info.ModTime())
	})
}
