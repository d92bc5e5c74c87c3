package fleetsim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Story is everything that strikes the hosts of one agent.
type Story struct {
	Seed   int64
	Hosts  int
	Clocks []Clock
	Steps  []Step // by time
}

// Clock is how the clocks of a host differ from the true one.
type Clock struct {
	Rate  float64       // of the boot clock
	Wall  time.Duration // how wrong the wall clock is
	Phase float64       // when in a minute cron polls
}

// Step is one event.
type Step struct {
	At   time.Duration // since the begin of the story
	Do   Deed
	Host int           // -1: the holder at that time
	For  time.Duration // how long it lasts
	N    int           // how much, or at which point
	Site string        // of a fault at a point: the begin of its name
	Late time.Duration // after a sleep: when the timers of processes fire
}

// Deed is the kind of a step.
type Deed string

// The deeds.
const (
	Mail    Deed = "mail"    // the operator writes
	Ask     Deed = "ask"     // the peer asks
	Cut     Deed = "cut"     // the host loses its network, or one direction of it; N: see cuts
	Down    Deed = "down"    // no server answers
	Stale   Deed = "stale"   // reads of the host are up to N writes old
	Late    Deed = "late"    // the next N offers of the host come For late, and their answers are lost
	Stop    Deed = "stop"    // the runner of a turn is stopped
	Kill    Deed = "kill"    // the runner of a turn is killed
	Sleep   Deed = "sleep"   // the machine sleeps
	Power   Deed = "power"   // it loses its power
	Wall    Deed = "wall"    // its wall clock jumps by For
	Take    Deed = "take"    // `fleet take` there
	Release Deed = "release" // `fleet release` there
	Copy    Deed = "copy"    // a new machine starts with a copy of its directory; N odd: and its name
	Backup  Deed = "backup"  // its directory is copied
	Restore Deed = "restore" // the backup replaces its directory
	Forget  Deed = "forget"  // the servers lose their last N writes; a person runs `fleet join --replace` on the last holder
	Die     Deed = "die"     // the machine loses its power, and another host must act soon

	Lame    Deed = "lame"     // the runner of the next turn is stopped, or killed if N is odd, and its host cut off
	Freeze  Deed = "freeze"   // a process or the machine stops while the answer to an offer is on its way, for about a lease
	KillAt  Deed = "kill at"  // a process of the host is killed at a point
	StopAt  Deed = "stop at"  // it is stopped there
	SleepAt Deed = "sleep at" // the machine falls asleep there
	PowerAt Deed = "power at" // the machine loses its power there
	FailAt  Deed = "fail at"  // the disk of the host is full there
	cutAt   Deed = "cut at"   // a connection breaks there
)

func (s Step) String() string {
	text := fmt.Sprintf("%s %d", s.Do, s.Host)
	if s.For != 0 {
		text += fmt.Sprintf(" for %v", s.For)
	}
	if s.N != 0 {
		text += fmt.Sprintf(" n=%d", s.N)
	}
	if s.Site != "" {
		text += fmt.Sprintf(" %q", s.Site)
	}
	return text
}

// cuts are the ways to lose the network.
var cuts = []cut{{true, true, true}, {true, true, false}, {true, false, false}, {false, true, false}, {false, false, true}}

// sites are the points at which most can go wrong.
var sites = []string{
	"", "", "call OfferHead", "answer OfferHead", "answer OfferHead", "rename fleet.json", "rename state.json", "link state.json", "append history",
	"done state.json", "call PutFile", "agent start", "agent end", "dial mail", "post", "mesh send answer", "mesh ack", "rename outbox", "after dot", "answer LoadHead",
	"signal the agent", "call PutBlock", "answer GetFile", "rename messages",
}

// storyTime is how long the faults of a story go on.
const storyTime = 8 * time.Minute

// Make returns the story of a seed.
func Make(seed int64) Story {
	g := rand.New(rand.NewPCG(uint64(seed), 1))
	s := Story{Seed: seed, Hosts: 2 + g.IntN(2)}
	for range s.Hosts {
		c := Clock{Rate: 1 + (g.Float64()-0.5)*0.01, Phase: g.Float64()}
		if g.IntN(2) == 0 {
			c.Wall = time.Duration(g.IntN(48)-24) * time.Hour
		}
		s.Clocks = append(s.Clocks, c)
	}
	switch seed % 8 {
	case 3:
		s.Steps = append(s.Steps, Step{At: between(g, time.Minute, 4*time.Minute), Do: Die, Host: -1, For: storyTime})
		return s.withMessages(g)
	case 5:
		s.Steps = append(s.Steps, Step{At: between(g, 3*time.Minute, 6*time.Minute), Do: Forget, Host: -1, N: 1 + g.IntN(6)})
		return s.withMessages(g)
	}
	for at := between(g, 10*time.Second, 90*time.Second); at < storyTime; at += between(g, 5*time.Second, 100*time.Second) {
		s.Steps = append(s.Steps, makeStep(g, at, s.Hosts))
		if g.IntN(3) == 0 { // two things at once
			s.Steps = append(s.Steps, makeStep(g, at, s.Hosts))
		}
	}
	return s.withMessages(g)
}

// withMessages adds the messages that come in.
func (s Story) withMessages(g *rand.Rand) Story {
	for range 2 + g.IntN(3) {
		do := Mail
		if g.IntN(3) == 0 {
			do = Ask
		}
		s.Steps = append(s.Steps, Step{At: between(g, 5*time.Second, storyTime), Do: do})
	}
	slices.SortStableFunc(s.Steps, func(a, b Step) int { return int(a.At - b.At) })
	return s
}

func between(g *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(g.Int64N(int64(most-least)))
}

// deeds is how often each deed occurs.
var deeds = []struct {
	weight int
	deed   Deed
}{
	{10, Cut}, {4, Down}, {6, Stale}, {6, Late}, {6, Stop}, {6, Kill}, {7, Sleep}, {6, Power}, {5, Wall}, {5, Take}, {3, Release},
	{1, Copy}, {2, Backup}, {2, Restore}, {14, KillAt}, {8, StopAt}, {8, SleepAt}, {4, PowerAt}, {5, FailAt}, {16, Freeze}, {10, Lame},
}

func makeStep(g *rand.Rand, at time.Duration, hosts int) Step {
	sum := 0
	for _, d := range deeds {
		sum += d.weight
	}
	n := g.IntN(sum)
	i := slices.IndexFunc(deeds, func(d struct {
		weight int
		deed   Deed
	}) bool {
		n -= d.weight
		return n < 0
	})
	s := Step{At: at, Do: deeds[i].deed, Host: g.IntN(hosts), N: g.IntN(5), For: between(g, time.Second, time.Minute), Late: between(g, 0, 500*time.Millisecond)}
	if g.IntN(2) == 0 {
		s.Host = -1
	}
	if g.IntN(2) == 0 {
		s.For = between(g, time.Minute, 5*time.Minute)
	}
	switch s.Do {
	case Lame:
		s.Host, s.For = -1, between(g, 150*time.Second, 400*time.Second)
		return s
	case Freeze:
		s.Do, s.Host, s.Site, s.N, s.For = SleepAt, -1, "answer OfferHead", g.IntN(8), between(g, 130*time.Second, 220*time.Second)
		if g.IntN(2) == 0 {
			s.Do = StopAt
		}
		return s
	case Stale:
		s.N = 1 + g.IntN(12)
	case Wall:
		s.For = time.Duration(g.IntN(48)-24)*time.Hour + between(g, 0, time.Hour)
	case KillAt, StopAt, SleepAt, PowerAt, FailAt:
		if s.Site = sites[g.IntN(len(sites))]; s.Site == "" {
			s.N = g.IntN(60)
		}
		if g.IntN(2) == 0 {
			s.Host, s.N = -1, s.N/2
		}
	case Down:
		s.For = min(s.For, 3*time.Minute)
	}
	return s
}

// faults are those that are under way. World.mu guards them.
type faults struct {
	armed  []*armed
	offers []lateOffers
	down   bool
}

// armed is a fault that waits for its point.
type armed struct {
	Step
	host *host
	left int // points of this name to pass before
}

// lateOffers are offers of a host that will come late.
type lateOffers struct {
	host *host
	n    int
	by   time.Duration
}

// at returns the fault that strikes a process at a point. World.mu is held.
func (f *faults) at(p *process, site string) *Step {
	for i, a := range f.armed {
		if a.host != p.host || !strings.HasPrefix(site, a.Site) {
			continue
		}
		if a.left--; a.left >= 0 {
			continue
		}
		f.armed = slices.Delete(f.armed, i, i+1)
		return &a.Step
	}
	return nil
}

// late returns how late an offer of a host comes. World.mu is held.
func (f *faults) late(h *host) time.Duration {
	for i := range f.offers {
		if o := &f.offers[i]; o.host == h && o.n > 0 {
			o.n--
			return o.by
		}
	}
	return 0
}

// faultAfterDot returns the fault that strikes after the final dot of a mail.
func (w *World) faultAfterDot(p *process) Deed {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f := w.faults.at(p, "after dot"); f != nil && f.Site != "" {
		if f.Do == KillAt {
			return KillAt
		}
		return cutAt
	}
	return ""
}
