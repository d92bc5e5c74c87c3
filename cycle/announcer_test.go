package cycle_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// watchedCarrier is a carrier on which somebody watches what turns come to.
type watchedCarrier struct {
	cycle.Carrier
	mu     sync.Mutex
	heard  []mesh.Task
	begun  chan struct{} // if set, an announcement begins with a value in it
	answer chan error    // and waits for its answer

	under, cutShort atomic.Int32 // announcements under way, and when it was closed
}

func (a *watchedCarrier) Close() { a.cutShort.Store(a.under.Load()) }

func (a *watchedCarrier) Announce(_ context.Context, t mesh.Task) error {
	a.under.Add(1)
	defer a.under.Add(-1)
	a.mu.Lock()
	a.heard = append(a.heard, t)
	a.mu.Unlock()
	if a.begun != nil {
		a.begun <- struct{}{}
		return <-a.answer
	}
	return nil
}

// watchedAgent returns the fixture's agent on a mesh where somebody watches.
func (h *fixture) watchedAgent() *watchedCarrier {
	a := &watchedCarrier{Carrier: h.agent.Mesh.Carrier}
	h.agent.Mesh.Carrier = a
	return a
}

// The end of each turn is announced on the mesh once, without its message. A poll without a turn
// announces nothing.
func TestTurnEndIsAnnounced(t *testing.T) {
	h := newAwakeFixture(t)
	watching := h.watchedAgent()
	h.pollAfter(30 * time.Minute)
	_, err := h.peer.Send(t.Context(), mesh.Message{To: handle, Text: "which commit is live?", Kind: mesh.KindMessage})
	check(t, err)
	h.poll()
	h.script("#!/bin/sh\nexit 1\n")
	_, err = h.peer.Send(t.Context(), mesh.Message{To: handle, Text: "and now?", Kind: mesh.KindMessage})
	check(t, err)
	h.pollAfter(time.Minute)
	h.pollAfter(time.Minute)
	h.agent.Close()

	tasks := h.wantTasks(state.Success, state.Failed)
	if len(watching.heard) != 2 {
		t.Fatalf("announced: %+v", watching.heard)
	}
	for i, line := range tasks {
		want := mesh.Task{
			Event: "task." + string(line.Outcome), ID: fmt.Sprintf("%d.%d", line.Serial, line.N), Agent: handle, At: line.At,
			TurnID: line.TurnID, Epoch: line.Epoch, Status: line.Outcome, Began: line.At, // the clock stands
		}
		if got := watching.heard[i]; got != want {
			t.Errorf("announced %+v, want %+v", got, want)
		}
	}
}

// Only the end of the process waits for an announcement, and a failed announcement has no effect.
func TestAnnouncementDelaysNothing(t *testing.T) {
	h := newAwakeFixture(t)
	watching := h.watchedAgent()
	watching.begun, watching.answer = make(chan struct{}, 1), make(chan error)
	_, err := h.peer.Send(t.Context(), mesh.Message{To: handle, Text: "which commit is live?", Kind: mesh.KindMessage})
	check(t, err)
	if r := h.poll(); len(r.Failed) > 0 {
		t.Errorf("failed: %+v", r.Failed)
	}
	h.wantTasks(state.Success)
	<-watching.begun
	go func() { watching.answer <- errors.New("the engine is down") }()
	h.agent.Close()
	if watching.cutShort.Load() > 0 {
		t.Error("the connection was closed while the mesh was being told")
	}
	h.wantLogged("was not announced: the engine is down")
}
