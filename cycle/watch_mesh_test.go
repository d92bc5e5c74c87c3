package cycle_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// Rejected items make a watcher ask for at most one poll a minute. Accepted ones do so at once.
func TestWatcherIgnoresStrangers(t *testing.T) {
	h := newAwakeFixture(t)
	h.agent.Mesh.Open = false
	const looks = 60
	var asked, polls atomic.Int32
	rung, looked := make(chan struct{}), make(chan struct{})
	ring, look := sync.OnceFunc(func() { close(rung) }), sync.OnceFunc(func() { close(looked) })
	shown := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := asked.Add(1)
		var box mesh.Mailbox
		for i, from := range []string{"mallory", peer, handle, fmt.Sprint("mallory", n)} {
			m := mesh.Message{ID: fmt.Sprint(n, ".", i), From: from, To: handle, Kind: []string{mesh.KindNudge, mesh.KindMessage}[n%2], Proven: i == 0}
			box.Messages = append(box.Messages, m)
		}
		if n > looks {
			box.Messages = append(box.Messages, mesh.Message{ID: "true", From: peer, To: handle, Kind: mesh.KindNudge, Proven: true})
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(box)
		if n > looks {
			look()
		}
	})
	h.onMesh.Store(&shown)
	ctx, stop := context.WithCancel(t.Context())
	kick, ended, began := make(chan struct{}), make(chan struct{}), time.Now()
	var before atomic.Int32
	go func() {
		defer close(ended)
		h.agent.WatchMesh(ctx, kick, nil, func() {
			polls.Add(1)
			if asked.Load() <= looks {
				before.Add(1)
				return
			}
			ring()
		})
	}()
	for waiting := true; waiting; {
		select {
		case kick <- struct{}{}:
		case <-looked:
			waiting = false
		}
	}
	<-rung
	stop()
	<-ended
	if most := 1 + int32(time.Since(began)/time.Minute); before.Load() > most {
		t.Errorf("%d polls for what %d looks found, want %d at most", before.Load(), looks, most)
	}
	if polls.Load() == before.Load() {
		t.Error("the nudge of a peer asked for no poll")
	}
}

// A GO is news to a watcher also if it has not looked since the HALT was heeded.
func TestWatcherSeesGoAfterHalt(t *testing.T) {
	h := newAwakeFixture(t)
	var halted atomic.Bool
	halted.Store(true)
	shown := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(mesh.Mailbox{Halted: halted.Load()})
	})
	h.onMesh.Store(&shown)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	kick, ended, polls := make(chan struct{}), make(chan struct{}), 0
	go func() {
		defer close(ended)
		h.agent.WatchMesh(ctx, kick, nil, func() {
			if polls++; polls == 2 {
				stop()
				return
			}
			if _, err := h.agent.Poll(ctx, cycle.PollOptions{}); err != nil {
				t.Error(err)
			}
			halted.Store(false)
		})
	}()
	for watching := true; watching; {
		select {
		case kick <- struct{}{}:
		case <-ended:
			watching = false
		}
	}
	if polls != 2 {
		t.Errorf("HALT and GO asked for %d polls, want 2", polls)
	}
}

// TestWatcherRepeatsUntilStateShowsHalt checks that HALT and GO ask for another poll while
// the polls find the mesh as it was before: it may announce them before it can be read.
func TestWatcherRepeatsUntilStateShowsHalt(t *testing.T) {
	for _, on := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			a := &cycle.Agent{Store: &store.Store{Dir: t.TempDir()}, Mesh: &cycle.Mesh{Carrier: &quietMesh{halted: on}}}
			show := func(halted bool) {
				_, err := a.Store.Commit(t.Context(), time.Now(), func(s state.State, _ store.Recovery) (state.State, error) {
					s.HaltedMesh, s.Serial = halted, s.Serial+1
					return s, nil
				})
				if err != nil {
					t.Error(err)
				}
			}
			show(!on)
			ctx, stop := context.WithTimeout(t.Context(), time.Hour)
			defer stop()
			polls, began := 0, time.Now()
			var last time.Duration
			a.WatchMesh(ctx, nil, nil, func() {
				if polls++; polls == 5 {
					show(on)
				}
				last = time.Since(began)
			})
			if polls != 5 || last > 16*time.Second {
				t.Errorf("halted %v: %d polls in %v, want 5 in 1+2+4+8 seconds at most", on, polls, last)
			}
		})
	}
}

// TestWatcherIgnoresUnprovenGo checks that an unproven GO after a HALT causes no extra polls.
func TestWatcherIgnoresUnprovenGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet := &quietMesh{halted: true}
		a := &cycle.Agent{Store: &store.Store{Dir: t.TempDir()}, Mesh: &cycle.Mesh{Carrier: quiet}}
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		a.WatchMesh(ctx, nil, nil, func() { quiet.unproven = true })
		if quiet.watches > 80 {
			t.Errorf("%d looks in an hour, want one in 50 s", quiet.watches)
		}
	})
}

// quietMesh is a mesh on which nothing happens, and which is halted or not.
type quietMesh struct {
	cycle.Carrier
	halted, unproven bool
	watches          int
}

func (c *quietMesh) Watch(ctx context.Context, wait time.Duration) (mesh.Mailbox, error) {
	select {
	case <-time.After(wait):
	case <-ctx.Done():
	}
	c.watches++
	return mesh.Mailbox{Halted: c.halted, HaltUnproven: c.unproven}, nil
}
