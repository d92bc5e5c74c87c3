package simulator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"agentstateloop/cycle"
)

// hangAfter is the real time after which a process counts as hung. It is far longer
// than the network timeouts of a world.
const hangAfter = 60 * time.Second

// process is one process of the agent: a goroutine, or several, that end together
// when it is killed.
type process struct {
	world  *World
	name   string
	slot   *slot
	agent  *cycle.Agent
	ctx    context.Context
	cancel context.CancelFunc

	attempts int
	hung     bool  // another poll has run while a hook that it called hung
	strikes  int64 // faults that had struck when the process began

	mu     sync.Mutex
	faults []Fault
	points map[Lane]int
	sites  map[string]int
	dead   bool

	lingering *livingAgent // has answered, and its runner waits for its end; nil without such an agent

	refused     []string // credentials that servers have refused
	interrupted bool     // another process ran meanwhile
	readOnly    bool     // the disk refuses writes

	over   bool           // it has ended, so its faults strike no more
	during sync.WaitGroup // steps of the fault Meanwhile
}

// verdict decides the fate of the step after a point.
type verdict int

const (
	goOn    verdict = iota
	dead            // the process is gone
	refused         // the step fails: ENOSPC, or a temporary refusal
	lost            // EIO; or the server acts, but its answer is lost
	half            // half of the answer arrives
	lostAll         // like lost, and then the process is killed
	stalled         // the server stops answering
	cutOff          // half of the command arrives
	twice           // the answer arrives twice
)

// verdicts are those of the faults.
var verdicts = map[What]verdict{
	Crash: dead, Power: dead, CrashLate: lostAll, Fail: refused, ReadOnly: refused, Lost: lost, Half: half, Stall: stalled, Cut: cutOff, Twice: twice,
}

// run starts a process and waits for its end. It returns its error, and whether it
// was killed before it could return one.
func (w *World) run(name string, faults []Fault, do func(context.Context, *cycle.Agent) error) (err error, killed bool) {
	var slot *slot
	select {
	case slot = <-w.slots:
		defer func() { w.slots <- slot }()
	default:
		return nil, true // so many processes at once are not needed
	}
	p := &process{world: w, name: name, slot: slot, faults: faults, points: map[Lane]int{}, sites: map[string]int{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.agent = w.newAgent(p)
	p.strikes = w.strikes.Load()
	w.restful.Store(false)
	slot.enter(p)
	if w.depth() == 1 {
		w.releaseOrphans()
		w.rung.Store(false) // a nudge that came before has its sign no more
		os.Remove(w.detached() + ".started")
		w.record.outermost()
	}

	began := time.Now()
	done := make(chan struct{})
	ended := false
	go func() {
		defer close(done)
		defer func() {
			if x := recover(); x != nil {
				w.violate("6", "%s panicked: %v\n%s", name, x, stack())
			}
		}()
		err = do(p.ctx, p.agent)
		if !p.isDead() {
			p.agent.Close()
		}
		ended = true
	}()
	select {
	case <-done:
	case <-time.After(hangAfter):
		w.violate("6", "%s hangs:\n%s", name, stack())
		return nil, true
	}
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	p.during.Wait()
	p.cancel()
	slot.leave()
	if p.isDead() || !ended {
		return nil, true
	}
	w.disk.before(p, Main)
	w.checkEnd(p, err)
	w.checkOutageReported(p, time.Since(began))
	w.undisturbed.Store(p.undisturbed(time.Since(began)))
	return err, false
}

func stack() string {
	buf := make([]byte, 1<<20)
	return string(buf[:runtime.Stack(buf, true)])
}

func (p *process) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// die kills the process. Its connections break at once, and each of its goroutines
// ends at its next point at the latest.
func (p *process) die() {
	p.mu.Lock()
	p.dead = true
	a := p.lingering
	p.mu.Unlock()
	p.cancel()
	p.slot.cut()
	if a != nil {
		p.world.orphan(a)
	}
}

// point is called before every step that a fault can strike. site names the step.
func (p *process) point(lane Lane, site string) verdict {
	p.mu.Lock()
	if p.dead {
		p.mu.Unlock()
		return dead
	}
	var fault *Fault
	for i := range p.faults {
		f := &p.faults[i]
		if f.What == Meanwhile && lane == Aside {
			continue // the process does not wait
		}
		if f.Site == "" && f.Lane == lane && f.At == p.points[lane] || f.Site == site && f.At == p.sites[site] {
			fault = f
		}
	}
	p.points[lane]++
	p.sites[site]++
	p.mu.Unlock()
	p.world.count.point(site)
	if fault == nil {
		return goOn
	}
	return p.strike(fault, site)
}

// strike applies a fault.
func (p *process) strike(f *Fault, site string) verdict {
	w := p.world
	if f.What == Meanwhile {
		return p.meanwhile(f, site)
	}
	w.count.happened(fmt.Sprintf("%s at %s", f.What, site))
	w.logf("  ! %s: %s before %s", p.name, f.What, site)
	w.strikes.Add(1)
	if strings.HasPrefix(site, "imap ") {
		w.record.brokenOff()
	}
	switch way := channelOf(site); {
	case way != "":
		w.troubled(way)
	case f.What != Crash && f.What != CrashLate && f.What != Power:
		w.troubled("mesh", "smtp") // an effect that could not be recorded is not sent
	}
	switch f.What {
	case Crash:
		p.die()
	case Power:
		w.losePower()
	case ReadOnly:
		p.mu.Lock()
		p.readOnly = true
		p.mu.Unlock()
	}
	return verdicts[f.What]
}

// meanwhile plays another step completely. If a process holds state.lock, it waits
// for a later point, as the other process would.
func (p *process) meanwhile(f *Fault, site string) verdict {
	w := p.world
	if !w.isFree("state.lock", 1) {
		p.mu.Lock()
		f.At++
		if f.Site != "" { // at its next point the lock would be held again
			f.Site, f.Lane, f.At = "", Main, p.points[Main]
		}
		p.mu.Unlock()
		return goOn
	}
	p.mu.Lock()
	if p.over { // a fault of a request that it did not await
		p.mu.Unlock()
		return goOn
	}
	p.during.Add(1)
	p.interrupted = true
	p.mu.Unlock()
	defer p.during.Done()
	w.count.happened("interleaved: " + string(f.Then.Do))
	w.logf("  ! %s: before %s, meanwhile: %s", p.name, site, f.Then)
	if f.Then.Do == Ring {
		w.rung.Store(true)
	}
	w.perform(*f.Then)
	if p.isDead() {
		return dead
	}
	return goOn
}

// hook is the Hook of the store.
func (p *process) hook(step, path string) error {
	lane, site := p.world.place(step, path)
	p.world.disk.before(p, lane)
	p.world.snapshot(site)
	v := p.point(lane, site)
	p.mu.Lock()
	readOnly := p.readOnly
	p.mu.Unlock()
	switch {
	case v == dead, v == lostAll:
		p.die()
		runtime.Goexit()
	case v == lost, v == half, v == cutOff, v == twice:
		return fmt.Errorf("%s %s: %w", step, path, syscall.EIO)
	case readOnly:
		return fmt.Errorf("%s %s: %w", step, path, syscall.EROFS)
	case v == refused:
		return fmt.Errorf("%s %s: %w", step, path, syscall.ENOSPC)
	}
	p.world.disk.began(p, lane, step, path)
	return nil
}

// place returns the lane of a hook, and a site name that is the same in each run.
func (w *World) place(step, path string) (Lane, string) {
	name, err := filepath.Rel(w.stateDir(), path)
	if err != nil {
		name = path
	}
	dir, file, below := strings.Cut(filepath.ToSlash(name), "/")
	lane := Main
	switch dir {
	case "messages", "quarantine":
		if strings.HasPrefix(file, "mail") {
			lane = ByMail
		}
		if strings.HasPrefix(file, "mesh") {
			lane = ByMesh
		}
	case "outbox":
		file, _, _ = strings.Cut(file, "%") // only the kind of the effect
	}
	switch {
	case strings.HasPrefix(dir, "history"):
		dir = "history"
	case strings.HasPrefix(dir, "state.json.corrupt"):
		dir = "state.json.corrupt"
	}
	site := step + " " + dir
	if !below {
		return lane, site
	}
	base, _, _ := strings.Cut(filepath.Base(file), ".")
	switch {
	case dir == "outbox":
		site += "/" + file
	case dir == "turns" && (base == "deliverable" || base == "submitted" || base == "output"):
		site += "/*/" + base
	default:
		site += "/*" + filepath.Ext(strings.TrimSuffix(file, ".tmp"))
	}
	if strings.HasSuffix(path, ".tmp") {
		site += ".tmp"
	}
	return lane, site
}

// aborted reports whether a fault or the end of the process caused the error.
func aborted(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EIO) || errors.Is(err, syscall.EROFS) || errors.Is(err, context.Canceled)
}
