package fleettrial_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/fleet"
	"agentstateloop/fleet/seat"
	"agentstateloop/internal/testkit/fleettest"
	"agentstateloop/mesh/natsmesh"
	"agentstateloop/state"
)

const (
	takingAgents = 4
	takesOfEach  = 250
)

// TestContendedTakes has two hosts take a released seat at the same moment, a thousand times. Each
// host knows another one of three servers. One host wins each time, and the term rises by one.
func TestContendedTakes(t *testing.T) {
	skipUnlessReal(t)
	t.Parallel()
	e := newServers(t, "agent0", "agent1", "agent2", "agent3")
	began := time.Now()
	t.Run("agents", func(t *testing.T) {
		for n := range takingAgents {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				t.Parallel()
				contend(t, e, fmt.Sprintf("agent%d", n), takesOfEach)
			})
		}
	})
	n := takingAgents * takesOfEach
	t.Logf("%d takes by two hosts at once, each with one winner: %.0f a second", n, float64(n)/time.Since(began).Seconds())
}

// contend has three hosts of an agent: the one that has the seat releases it for the two others.
func contend(t *testing.T, e *fleettest.Engine, handle string, rounds int) {
	a := newHosts(t, e, nil, handle, shortTenths, "alpha", "beta", "gamma")
	var seats []*seat.Seat
	for n, h := range a.hosts {
		loaded := load(t, h.dir)
		conn := connOf(t, loaded)
		conn.URL = "nats://" + e.Servers[n].Addr
		if _, err := loaded.Seat.Join(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		seats = append(seats, loaded.Seat)
	}
	holder := 0
	for round := range rounds {
		if err := seats[holder].Release(t.Context()); err != nil {
			t.Fatalf("round %d: release: %v", round, err)
		}
		term := uint64(round + 2)
		won := make([]bool, len(seats))
		var both sync.WaitGroup
		for n, s := range seats {
			if n != holder {
				both.Go(func() { won[n] = take(t, s, term) })
			}
		}
		both.Wait()
		holder = slices.Index(won, true)
		if holder < 0 || slices.Contains(won[holder+1:], true) {
			t.Fatalf("round %d: won: %v", round, won)
		}
		if v, err := seats[holder].View(); err != nil || v.Term != term || !v.Here {
			t.Fatalf("round %d: the winner is at term %d, want %d: %v", round, v.Term, term, err)
		}
	}
}

// take looks until this host has the seat of a term, or sees that another one has it. The server of
// the host may lag behind the one that has the release.
func take(t *testing.T, s *seat.Seat, term uint64) (won bool) {
	for end := time.Now().Add(takeoverMargin); time.Now().Before(end); {
		err := s.Look(t.Context())
		standby, isStandby := errors.AsType[*seat.StandbyError](err)
		switch {
		case err == nil:
			return true
		case isStandby && standby.Term >= term:
			return false
		case !isStandby && !errors.Is(err, seat.ErrUnsure):
			t.Errorf("term %d: %v", term, err)
			return false
		}
	}
	t.Errorf("term %d: nobody takes the seat", term)
	return false
}

// connOf returns the connection of an agent in this process.
func connOf(t testing.TB, a *cycle.Agent) *fleet.Conn {
	client := a.Mesh.Carrier.(*natsmesh.Client)
	t.Cleanup(client.Close)
	return client.Conn()
}

// accountant commits numbered payments on one host of an agent.
type accountant struct {
	agent          *cycle.Agent
	accepted, lost int   // commits that succeeded, or that are not known to have
	failed         error // because of the seat
	longest        time.Duration
}

func isOf[E error](err error) bool {
	_, is := errors.AsType[E](err)
	return is
}

// pay commits payments until enough is true.
func (c *accountant) pay(ctx context.Context, enough func(n int) bool) {
	for n := 0; !enough(n); n++ {
		began := time.Now()
		_, err := c.agent.Credit(ctx, 1, fmt.Sprint("p", n))
		switch {
		case err == nil:
			c.accepted++
			c.longest = max(c.longest, time.Since(began))
		case isOf[*seat.StandbyError](err) || isOf[*seat.TroubleError](err):
			c.failed = errors.Join(c.failed, err)
		default:
			c.lost++
		}
	}
}

// check checks that each payment that succeeded is in the state and in the history once, that no
// payment is there twice, and that the servers have the same state.
func (c *accountant) check(t *testing.T) {
	t.Helper()
	if c.failed != nil {
		t.Errorf("%s: %v", c.agent.Handle, c.failed)
	}
	if err := c.agent.Seat.Look(t.Context()); err != nil { // it settles the last offer
		t.Errorf("%s: %v", c.agent.Handle, err)
	}
	s, err := c.agent.Store.Read()
	if err != nil {
		t.Fatal(err)
	}
	times := map[string]int{}
	for l, err := range c.agent.Store.History() {
		if err != nil {
			t.Fatal(err)
		}
		if l.Kind == state.LineCredit && strings.HasPrefix(l.From, "p") {
			times[l.From]++
		}
	}
	for by, n := range times {
		if n != 1 {
			t.Errorf("%s: payment %s is in the history %d times", c.agent.Handle, by, n)
		}
	}
	if n := len(times); n < c.accepted || n > c.accepted+c.lost || int(s.Purse.Granted) != n {
		t.Errorf("%s: %d payments succeeded, %d are unknown, %d are in the history, and the state has %d", c.agent.Handle, c.accepted, c.lost, n, s.Purse.Granted)
	}
	v, err := c.agent.Seat.View()
	if err != nil || !v.Here || v.Term != 1 || v.Trouble != "" {
		t.Errorf("%s: the host knows %+v: %v", c.agent.Handle, v, err)
	}
}

// TestCommitsWithoutAnswers throws away answers to commits, and commits too. Each commit of which
// the outcome was unknown turns out to be accepted or not, and none counts twice.
func TestCommitsWithoutAnswers(t *testing.T) {
	skipUnlessReal(t)
	t.Parallel()
	const agents, commits = 8, 25
	var handles []string
	for n := range agents {
		handles = append(handles, fmt.Sprintf("agent%d", n))
	}
	e := newServers(t, handles...)
	var mu sync.Mutex
	thrown := map[string]int{}
	t.Run("agents", func(t *testing.T) {
		for n, handle := range handles {
			t.Run(handle, func(t *testing.T) {
				t.Parallel()
				random := rand.New(rand.NewPCG(uint64(n), 2))
				c := newAccountant(t, e, handle)
				conn := connOf(t, c.agent)
				conn.Close()
				conn.Dial = fleettest.Wire{Pass: func(f fleettest.Frame) bool {
					kind := kindOf(f)
					mu.Lock()
					defer mu.Unlock()
					if kind != "answer stored" && kind != "head" || random.IntN(6) > 0 {
						return true
					}
					thrown[kind]++
					return false
				}}.Dial
				c.pay(t.Context(), func(n int) bool { return n == commits })
				conn.Close()
				conn.Dial = nil
				c.check(t)
				mu.Lock()
				defer mu.Unlock()
				thrown["commits that succeeded"] += c.accepted
				thrown["commits of an unknown outcome"] += c.lost
			})
		}
	})
	t.Logf("thrown away: %v", thrown)
	if thrown["head"] == 0 || thrown["answer stored"] == 0 {
		t.Error("nothing was thrown away")
	}
	if lost := thrown["commits of an unknown outcome"]; lost > agents*commits/10 {
		t.Errorf("%d commits of %d did not find out their outcome, although they offer their head several times", lost, agents*commits)
	}
}

// TestLeadersKilledUnderLoad kills the server that leads the heads again and again, while agents
// commit. No accepted head is lost, and no head follows an older one.
func TestLeadersKilledUnderLoad(t *testing.T) {
	skipUnlessReal(t)
	t.Parallel()
	const agents, during = 4, 40 * time.Second
	var handles []string
	for n := range agents {
		handles = append(handles, fmt.Sprintf("agent%d", n))
	}
	e := newServers(t, handles...)
	ctx, stop := context.WithCancel(t.Context())
	var paying sync.WaitGroup
	var all []*accountant
	for _, handle := range handles {
		c := newAccountant(t, e, handle)
		all = append(all, c)
		paying.Go(func() { c.pay(t.Context(), func(int) bool { return ctx.Err() != nil }) })
	}
	kills := 0
	for end := time.Now().Add(during); time.Now().Before(end); kills++ {
		leader := e.Leader("KV_asl-head")
		leader.Kill()
		time.Sleep(3 * time.Second) // the servers elect another leader
		leader.Start()
		time.Sleep(4 * time.Second) // they work
	}
	stop()
	paying.Wait()
	accepted, lost, longest := 0, 0, time.Duration(0)
	for _, c := range all {
		c.check(t)
		accepted, lost, longest = accepted+c.accepted, lost+c.lost, max(longest, c.longest)
	}
	t.Logf("%d leaders killed; %d commits accepted, %d of unknown outcome; the longest took %v", kills, accepted, lost, longest.Round(time.Millisecond))
}

// newAccountant returns the agent of a host that has the seat.
func newAccountant(t *testing.T, e *fleettest.Engine, handle string) *accountant {
	t.Helper()
	a := newHosts(t, e, nil, handle, shortTenths, "alpha")
	c := &accountant{agent: load(t, a.hosts[0].dir)}
	connOf(t, c.agent)
	if _, err := c.agent.Seat.Join(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	return c
}
