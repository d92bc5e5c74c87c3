package cycle_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/fleet/seat"
	"agentstateloop/internal/testkit/memfleet"
	"agentstateloop/state/store"
)

// seatWorld is the fleet of a fixture's agent, whose host alpha acts.
type seatWorld struct {
	server *memfleet.Server
	boot   atomic.Int64 // the boot clock
	down   atomic.Bool  // no server can be reached
}

// addSeat gives the agent a seat in memory.
func (h *fixture) addSeat() *seatWorld {
	h.t.Helper()
	w := &seatWorld{server: &memfleet.Server{Now: h.clock.Now}}
	w.boot.Store(int64(time.Hour))
	w.server.Hook = func(_ memfleet.Call, do func() error) error {
		if w.down.Load() {
			return memfleet.ErrDown
		}
		return do()
	}
	s := &seat.Seat{
		Handle: handle, Host: "alpha", Lease: seat.DefaultLease, Store: h.agent.Store, Engine: w.server.Host("alpha"),
		Names: cycle.NamedFiles(h.agent.Store), Clock: func() (string, time.Duration, error) { return "boot", time.Duration(w.boot.Load()), nil },
		Now: h.clock.Now, NewID: store.NewID, Pause: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	}
	h.agent.Store.Arbiter, h.agent.Seat = s, s
	_, err := s.Join(h.t.Context(), false)
	check(h.t, err)
	return w
}

// cutOff takes the servers away, and lets the lease end.
func (w *seatWorld) cutOff() {
	w.down.Store(true)
	w.boot.Add(int64(seat.DefaultLease))
}

// A summary is made by an agent. So it begins under the lease alone, and is dead before the lease
// ends.
func TestSummaryNeedsTheLease(t *testing.T) {
	h, _ := newSummaryFixture(t, "the red door")
	w := h.addSeat()
	w.cutOff()
	if _, err := h.agent.Compact(t.Context(), 0); err == nil || h.workFile("asked") != "" {
		t.Errorf("without the lease: %v, asked %q", err, h.workFile("asked"))
	}

	w.down.Store(false)
	_, err := h.agent.Poll(t.Context(), cycle.PollOptions{NoTurn: true})
	check(t, err)
	h.agent.Summary = h.summarizeWith("echo $$ >began; exec sleep 60\n")
	ended := make(chan error, 1)
	go func() {
		_, err := h.agent.Compact(t.Context(), 0)
		ended <- err
	}()
	for _, err := os.Stat(filepath.Join(h.blueprint.Dir, "began")); err != nil; _, err = os.Stat(filepath.Join(h.blueprint.Dir, "began")) {
		time.Sleep(10 * time.Millisecond) // the program tells nobody
	}
	w.cutOff()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the summary counts")
		}
	case <-time.After(20 * time.Second):
		t.Error("the agent of the summary still runs")
	}
}

// The monitor hears of the host that acts alone.
func TestHeartbeatNeedsTheLease(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	m := h.addMonitor()
	w := h.addSeat()
	_, err := h.agent.Poll(t.Context(), cycle.PollOptions{})
	check(t, err)
	if heard := m.requests(); heard != "/key" {
		t.Errorf("the monitor heard %q", heard)
	}
	calls := 0
	w.server.Hook = func(c memfleet.Call, do func() error) error {
		if calls++; calls > 2 { // the poll has renewed the lease, and works
			w.cutOff()
			return memfleet.ErrDown
		}
		return do()
	}
	h.clock.advance(time.Minute)
	_, err = h.agent.Poll(t.Context(), cycle.PollOptions{})
	if failed, ok := errors.AsType[*cycle.SeatError](err); !ok {
		t.Errorf("the poll returns %v", failed)
	}
	if heard := m.requests(); heard != "" {
		t.Errorf("the monitor heard %q", heard)
	}
}
