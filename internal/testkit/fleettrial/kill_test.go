package fleettrial_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	killedAgents = 50
	killsOfEach  = 2
	workTenths   = 8 // how long a turn works
)

// TestKilledHolders kills all processes of the host that has the seat, at each point of a cycle:
// before and after each message to and from the servers, in each system call that makes a change
// durable or starts a program, while the agent works, and between two polls. The other host takes
// the seat within the bound, no order is lost, and none is answered twice.
func TestKilledHolders(t *testing.T) {
	skipUnlessReal(t)
	t.Parallel()
	needStrace(t)
	var handles []string
	for n := range killedAgents + 1 { // the kinds of steps are measured with the first one
		handles = append(handles, fmt.Sprintf("agent%d", n))
	}
	e := newServers(t, handles...)
	d := newDesk(t, e)
	steps := measure(t, newAgent(t, e, d, handles[0], workTenths))
	plan := planned(steps, killedAgents*killsOfEach)
	k := &kills{hit: map[string]int{}}
	t.Run("agents", func(t *testing.T) {
		for n, handle := range handles[1:] {
			t.Run(handle, func(t *testing.T) {
				t.Parallel()
				a := newAgent(t, e, d, handle, workTenths)
				random := rand.New(rand.NewPCG(uint64(n), 1))
				for i := range killsOfEach {
					k.one(a, plan[n+i*killedAgents], random)
				}
				a.rest()
				a.check()
			})
		}
	})
	k.report(t, steps)
}

// planned chooses the points of the kills: of each kind of step the first one, the last one, and
// the others from the middle on.
func planned(steps []point, kills int) (plan []point) {
	kinds := map[string]int{}
	for _, p := range steps {
		kinds[p.kind] = max(kinds[p.kind], p.nth)
	}
	for nth := 1; len(plan) < kills; nth++ {
		plan = append(plan, point{kind: agentWorks}, point{kind: atRest})
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			last := kinds[kind]
			at := point{kind, (last/2+nth-2)%last + 1}
			switch nth {
			case 1:
				at.nth = 1
			case 2:
				at.nth = last
			}
			if strings.Contains(kind, " of ") || kind == "execve" || nth%2 == 0 {
				plan = append(plan, at)
			} else {
				plan = append(plan, point{kind + ", before", at.nth})
			}
		}
	}
	return plan[:kills]
}

// kills counts the kills of all agents.
type kills struct {
	mu      sync.Mutex
	hit     map[string]int // by the kind of point
	longest time.Duration  // from a kill to the takeover
	total   time.Duration
	n       int
}

// one kills the holder at a point, and waits until the other host has taken the seat and answered.
func (k *kills) one(a *agent, p point, random *rand.Rand) {
	t := a.t
	for _, h := range a.hosts {
		h.cron()
	}
	h, term := a.holder()
	if h == nil {
		t.Errorf("nobody holds the seat of %s", a.handle)
		return
	}
	number, hit := a.killAt(h, p, random)
	killed := now(t)
	other := a.hosts[0]
	if other == h {
		other = a.hosts[1]
	}
	until(t, lapse+2*pollEvery+takeoverMargin, fmt.Sprintf("%s takes the seat of %s after a kill at %v", other.name, a.handle, p), func() bool {
		s := other.seat()
		return s.Holds && s.Head.Term > term
	})
	took := now(t) - killed
	until(t, orphan+2*takeoverMargin, "the report of "+number+" after a kill at "+p.String(), func() bool { return len(a.desk.reports(number)) > 0 })
	k.mu.Lock()
	defer k.mu.Unlock()
	k.hit[hit.kind]++
	k.longest, k.total, k.n = max(k.longest, took), k.total+took, k.n+1
}

// rest waits until the holder has no work left, and ends both hosts.
func (a *agent) rest() {
	until(a.t, takeoverMargin, a.handle+" is at rest", func() bool {
		h, _ := a.holder()
		if h == nil {
			return false
		}
		s := h.state()
		return len(s.Inbox)+len(s.Outbox)+len(s.ToAck) == 0 && s.Turn.TurnID == ""
	})
	for _, h := range a.hosts {
		h.kill()
	}
}

// report prints the figures, and checks that each kind of point was hit.
func (k *kills) report(t *testing.T, steps []point) {
	t.Logf("%d kills; the other host took the seat after %v at most, %v on average", k.n, k.longest.Round(time.Second/10), (k.total / time.Duration(max(1, k.n))).Round(time.Second/10))
	for _, kind := range slices.Sorted(maps.Keys(k.hit)) {
		t.Logf("%3d %s", k.hit[kind], kind)
	}
	hit := map[string]bool{}
	for kind := range k.hit {
		hit[strings.TrimSuffix(kind, ", before")] = true
	}
	for _, p := range append(steps, point{kind: agentWorks}, point{kind: atRest}) {
		if !hit[p.kind] {
			t.Errorf("no host was killed at: %s", p.kind)
			hit[p.kind] = true
		}
	}
}
