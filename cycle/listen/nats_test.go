package listen_test

import (
	"context"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/internal/testkit/fleettest"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

const stranger = "mallory"

// counted is a carrier that counts how often polls take what waits.
type counted struct {
	cycle.Carrier
	takes   atomic.Int32
	asked   atomic.Int64           // when a poll last did, in Unix nanoseconds
	reached atomic.Pointer[string] // the server that it dialed last
}

func (c *counted) Take(ctx context.Context) (mesh.Mailbox, error) {
	c.takes.Add(1)
	c.asked.Store(time.Now().UnixNano())
	return c.Carrier.Take(ctx)
}

// overNATS moves the agent to an engine. It knows the key of its peer alone.
func (h *fixture) overNATS(e *fleettest.Engine) (c *counted, other cycle.Carrier) {
	client := e.Client(handle)
	c = &counted{Carrier: client}
	client.Keys = map[string]string{peer: e.Users[peer].Public}
	client.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c.reached.Store(&addr)
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	h.agent.Mesh = &cycle.Mesh{Carrier: c, Handle: handle, Peers: []string{peer}, Paces: true}
	return c, e.Client(peer)
}

// TestWakesOverNATS checks that what another agent does on the mesh wakes a
// listener, again and again.
func TestWakesOverNATS(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	_, other := h.overNATS(fleettest.Start(t, handle, peer))
	h.listen()
	for range 2 {
		_, err := other.Send(t.Context(), mesh.Message{To: handle, Text: "hello"})
		check(t, err)
		h.untilPhase(state.PREP)
		h.idle()
		check(t, other.Nudge(t.Context(), handle, "", "look"))
		h.untilPhase(state.PREP)
		check(t, other.Halt(t.Context()))
		h.until("HALT", func(s state.State) bool { return s.HaltedMesh })
		check(t, other.Go(t.Context()))
		h.until("GO", func(s state.State) bool { return !s.HaltedMesh })
		h.idle()
	}
}

// idle sends the agent back to IDLE, whatever poll runs.
func (h *fixture) idle() {
	h.t.Helper()
	_, err := h.agent.Order(h.t.Context(), state.IDLE, "test", true)
	check(h.t, err)
}

// TestNATSServerReconnects checks that a listener handles messages that were sent while its
// server was away: one server that comes back, and another one of a cluster of three.
func TestNATSServerReconnects(t *testing.T) {
	for name, start := range map[string]func(testing.TB, ...string) *fleettest.Engine{"one": fleettest.Start, "three": fleettest.StartCluster} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t)
			e := start(t, handle, peer)
			c, other := h.overNATS(e)
			h.listen()
			check(t, other.Nudge(t.Context(), handle, "", ""))
			h.until("the first nudge", func(state.State) bool { return h.nudged() == 1 })
			n := slices.IndexFunc(e.Servers, func(s *fleettest.Server) bool { return s.Addr == *c.reached.Load() })
			e.Servers[n].Kill()
			if len(e.Servers) == 1 {
				e.Servers[n].Start()
			}
			e.Until("the second nudge is sent", func(ctx context.Context) error { return other.Nudge(ctx, handle, "", "") })
			h.until("the second nudge", func(state.State) bool { return h.nudged() == 2 })
		})
	}
}

// TestUnprovenNudgesArePaced checks that unproven nudges cause at most one poll a minute, and
// delay no wake of a peer.
func TestUnprovenNudgesArePaced(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	e := fleettest.Start(t, handle, peer, stranger)
	c, other := h.overNATS(e)
	h.listen()
	check(t, other.Nudge(t.Context(), handle, "", ""))
	h.until("it listens", func(state.State) bool { return h.nudged() == 1 })
	forger := e.Conn(peer) // the right name, and another's key
	seed := e.Users[stranger].Seed
	forger.Handle, forger.Seed = stranger, func(context.Context) (string, error) { return seed, nil }
	began, before := time.Now(), c.takes.Load()
	for range 40 {
		check(t, forger.Ring(t.Context(), handle))
		<-time.After(25 * time.Millisecond) // so that they are not one ring
	}
	if polls, most := c.takes.Load()-before, 2+int32(time.Since(began)/time.Minute); polls > most {
		t.Errorf("40 rings of a stranger made %d polls, want %d at most", polls, most)
	}
	check(t, other.Nudge(t.Context(), handle, "", ""))
	h.until("the nudge of a peer", func(state.State) bool { return h.nudged() == 2 })
}
