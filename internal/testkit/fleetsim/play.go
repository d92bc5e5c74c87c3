package fleetsim

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/fleet/seat"
	"agentstateloop/internal/osfile"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// play plays the story, and checks its end.
func (w *World) play() {
	if err := w.setUp(); err != nil {
		w.violate("the fleet cannot be set up: %v", err)
		return
	}
	for _, s := range w.story.Steps {
		if at := s.At - w.now(); at > 0 {
			time.Sleep(at)
		}
		if w.over() {
			return
		}
		w.logf("> %s", s)
		w.perform(s)
	}
	time.Sleep(max(0, storyTime-w.now()))
	w.set(func() {
		if w.truth.died > 0 && w.now() > w.truth.died+takeoverWithin && w.broken == "" {
			w.broken = "no host acts after the death of the holder"
		}
	})
	w.calm()
	if w.over() {
		return
	}
	w.check()
}

// hostOf returns the host of a step.
func (w *World) hostOf(s Step) *host {
	if s.Host >= 0 {
		return w.hosts[s.Host]
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.truth.heads[len(w.truth.heads)-1].host
}

// perform begins a step. Its end comes by itself.
func (w *World) perform(s Step) {
	w.happened(string(s.Do))
	switch s.Do {
	case Mail:
		w.mailIn()
		return
	case Ask:
		w.messageIn()
		return
	}
	h := w.hostOf(s)
	switch s.Do {
	case Cut:
		w.set(func() { h.cut = cuts[s.N] })
		time.AfterFunc(s.For, func() { w.set(func() { h.cut = cut{} }) })
	case Down:
		w.set(func() { w.faults.down = true })
		time.AfterFunc(s.For, func() { w.set(func() { w.faults.down = false }) })
	case Stale:
		w.set(func() { h.stale = s.N })
		time.AfterFunc(s.For, func() { w.set(func() { h.stale = 0 }) })
	case Late:
		w.set(func() { w.faults.offers = append(w.faults.offers, lateOffers{h, 1 + s.N, s.For}) })
	case Stop, Kill:
		h.strikeRunner(s.Do == Kill, s.For, 0)
	case Lame:
		go h.lame(s)
	case Sleep:
		h.sleep()
		time.AfterFunc(s.For, func() { h.wakeUp(s.Late) })
	case Power:
		go h.outOfPower(s.For)
	case Die:
		w.set(func() { w.truth.died = w.now() })
		go h.outOfPower(s.For)
	case Forget:
		w.forget(h, s.N)
	case Wall:
		w.set(func() { h.wall += s.For })
	case Take:
		go h.take()
	case Release:
		go h.wait("release", func(p *process) error { return p.agent.Seat.Release(p.ctx) })
	case Copy:
		w.copyHost(h, s.N%2 == 1)
	case Backup:
		w.backUp(h)
	case Restore:
		w.restore(h)
	case KillAt, StopAt, SleepAt, PowerAt, FailAt:
		w.set(func() { w.faults.armed = append(w.faults.armed, &armed{s, h, s.N}) })
	}
}

// strikeRunner kills or stops the runner of a turn. The agent goes on for for that time at least. It returns
// false if no turn runs on the host.
func (h *host) strikeRunner(kill bool, d, longer time.Duration) bool {
	h.world.mu.Lock()
	i := slices.IndexFunc(h.running, func(p *process) bool { return p.life != nil && !p.life.finished })
	var p *process
	if i >= 0 {
		p = h.running[i]
		p.life.prolong(longer)
	}
	h.world.mu.Unlock()
	switch {
	case p == nil:
		return false
	case kill:
		p.die("kill -9")
	default:
		p.stop()
		time.AfterFunc(d, p.goOn)
	}
	return true
}

// lame waits for a turn on the host, strikes its runner and cuts the host off. Cron lives, so its
// polls must end the agent.
func (h *host) lame(s Step) {
	for range 100 {
		if h.strikeRunner(s.N%2 == 1, s.For, 6*time.Minute) {
			h.world.set(func() { h.cut = cuts[s.N/2] })
			time.AfterFunc(s.For, func() { h.world.set(func() { h.cut = cut{} }) })
			h.world.happened("a runner was lame")
			return
		}
		select {
		case <-time.After(time.Second):
		case <-h.over:
			return
		}
	}
}

func (w *World) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// forget lets the servers lose their last writes. The last holder must stop, with capitals, until a
// person puts its state back.
func (w *World) forget(h *host, n int) {
	w.set(func() { w.truth.forgot = true })
	w.servers.Forget(n)
	err := h.wait("poll", func(p *process) error {
		_, err := p.agent.Poll(p.ctx, cycle.PollOptions{IfDue: true})
		return err
	})
	if trouble, ok := errors.AsType[*seat.TroubleError](err); !ok || trouble.Trouble != seat.Forgot {
		w.violate("%s: the servers have lost its last heads, and its poll says %v", h.id, err)
	}
	time.Sleep(time.Minute)
	w.set(func() {
		w.truth.forgot, w.truth.heads, w.truth.files, w.truth.joined = false, nil, map[string]bool{}, w.now()
	})
	err = h.wait("join", func(p *process) error {
		j, err := p.agent.Seat.Join(p.ctx, true)
		w.logf("%s joins again: %+v", h.id, j)
		return err
	})
	if err != nil {
		w.violate("%s: join --replace: %v", h.id, err)
	}
	w.set(func() { w.truth.joined = w.now() })
}

// take runs `fleet take`, and a poll after it.
func (h *host) take() {
	h.wait("take", func(p *process) error {
		ctx, cancel := context.WithTimeout(p.ctx, 4*time.Minute)
		defer cancel()
		err := p.agent.Seat.Take(ctx, func(context.Context) {}, func(error) {})
		if err == nil {
			_, err = p.agent.Poll(p.ctx, cycle.PollOptions{})
		}
		return err
	})
}

// copyHost starts a machine with a copy of a directory.
func (w *World) copyHost(h *host, twin bool) {
	name := "copy"
	if twin {
		name = h.name
	}
	c, err := w.addHost(name, Clock{Rate: h.clock.Rate, Phase: 1 - h.clock.Phase})
	if err == nil {
		err = copyTree(h.dir, c.dir)
	}
	if err != nil {
		w.violate("simulator: %v", err)
		return
	}
	go c.cron()
}

// backUp copies the directory of a host.
func (w *World) backUp(h *host) {
	if h.backup != "" {
		osfile.RemoveAll(h.backup)
	}
	h.backup = filepath.Join(filepath.Dir(h.dir), "backup")
	if err := copyTree(h.dir, h.backup); err != nil {
		w.violate("simulator: %v", err)
	}
}

// restore puts the backup of a host back, while the machine is off.
func (w *World) restore(h *host) {
	if h.backup == "" {
		return
	}
	w.happened("an old directory was put back")
	h.powerOff()
	time.Sleep(time.Second)
	err := osfile.RemoveAll(h.dir)
	if err == nil {
		err = copyTree(h.backup, h.dir)
	}
	if err != nil {
		w.violate("simulator: %v", err)
	}
	h.powerOn()
}

// polled looks at the end of a poll.
func (w *World) polled(h *host, err error) {
	if err != nil {
		w.logf("%s: poll: %v", h.id, err)
	}
	if trouble, ok := errors.AsType[*seat.TroubleError](err); ok {
		w.mu.Lock()
		forgot := w.truth.forgot || w.truth.joined > 0 && w.now() < w.truth.joined+time.Minute // a poll under way
		w.mu.Unlock()
		if !forgot {
			w.violate("%s: %v", h.id, trouble)
		}
	}
}

// maxCalm is how long a story may go on after its faults: a clock that was set back delays a retry by
// up to an hour.
const maxCalm = 75 * time.Minute

// calm ends all faults, and waits until the agent rests.
func (w *World) calm() {
	w.logf("> calm")
	w.set(func() {
		w.faults = faults{}
		for _, h := range w.hosts {
			h.cut, h.stale = cut{}, 0
		}
	})
	for _, h := range w.hosts {
		h.wakeUp(0)
		h.powerOn()
		w.mu.Lock()
		running := slices.Clone(h.running)
		w.mu.Unlock()
		for _, p := range running {
			p.goOn()
		}
	}
	for end := w.now() + maxCalm; ; time.Sleep(20 * time.Second) {
		rests := w.rests()
		if w.over() {
			return
		}
		if rests {
			break
		}
		if w.now() > end {
			s := w.truth.last().state()
			w.violate("the agent has not come to rest within %v: phase %v, turn %+v, inbox %+v, outbox %+v", maxCalm, s.Phase, s.Turn, s.Inbox, s.Outbox)
			return
		}
	}
	time.Sleep(2*time.Minute + 10*time.Second) // late mails would come now
}

// rests reports whether all work of the agent is done.
func (w *World) rests() bool {
	n := w.truth.last()
	s := n.state()
	w.mu.Lock()
	asked := slices.Clone(w.record.asked)
	busy := false
	for _, h := range w.hosts {
		busy = busy || len(h.agents) > 0
	}
	w.mu.Unlock()
	if busy || s.Turn.NeedsRunner() || len(s.Inbox) > 0 || len(s.ToAck) > 0 || s.Phase != state.IDLE || len(s.Outbox) > 0 {
		return false
	}
	for _, m := range asked {
		if len(w.record.answersTo(m)) == 0 {
			return false
		}
	}
	return w.now() < n.sent+n.Lease
}

// check compares the messages with their answers, and the directories of the hosts with the head.
func (w *World) check() {
	w.record.checkSpans()
	w.record.checkNotes()
	for _, m := range w.record.asked {
		if n := len(w.record.answersTo(m)); n != 1 {
			w.violate("%s has %d answers", m.marker, n)
		}
	}
	for _, h := range w.hosts {
		st := &store.Store{Dir: h.dir, Agent: handle, Arbiter: stranger{}}
		for range 5 { // its next poll copies the head, unless the holder commits just then
			h.poll(cycle.PollOptions{IfDue: true})
			if s, err := st.Read(); err == nil && s.Serial == w.truth.last().Serial {
				break
			}
		}
		last := w.truth.last()
		err := st.Exclusive(context.Background(), func(c *store.Cache) error {
			data, err := c.Data()
			if err != nil {
				return err
			}
			if c.State.Serial == last.Serial && !bytes.Equal(data, last.raw()) {
				w.violate("the state of %s is not that of the head", h.id)
			}
			if c.State.Serial != last.Serial {
				w.violate("%s has the serial %d, and the head has %d", h.id, c.State.Serial, last.Serial)
			}
			return nil
		})
		if err != nil {
			w.violate("the directory of %s cannot be read: %v", h.id, err)
			continue
		}
		audit, err := st.Audit()
		if err != nil {
			w.violate("the history of %s cannot be checked: %v", h.id, err)
			continue
		}
		if len(audit.Breaks) > 0 {
			w.violate("the history of %s has %d breaks: %v", h.id, len(audit.Breaks), audit.Breaks[0])
		}
		for _, f := range last.Files {
			if _, err := os.Stat(st.Path(f.Name)); err != nil && !f.Past {
				w.violate("%s does not have %s of the head", h.id, f.Name)
			}
		}
	}
}

// stranger is an arbiter that refuses every change.
type stranger struct{}

func (stranger) Base(context.Context, *store.Cache) error { return nil }
func (stranger) Accept(context.Context, *store.Cache, state.State, []byte) error {
	return errors.New("not here")
}
