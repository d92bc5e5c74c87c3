package cycle_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agentstateloop/mesh"
	"agentstateloop/state"
)

// presence returns our agent's row of the registry, or the zero value if it has none.
func (h *fixture) presence() mesh.Presence {
	h.t.Helper()
	all, err := h.peer.Online(h.t.Context())
	check(h.t, err)
	for _, p := range all {
		if p.Handle == handle {
			return p
		}
	}
	return mesh.Presence{}
}

// wantPublished fails unless the registry shows this phase.
func (h *fixture) wantPublished(want state.Phase) {
	h.t.Helper()
	if got := h.presence().Phase; got != want {
		h.t.Errorf("the registry shows %q, want %q", got, want)
	}
}

// countCalls counts the calls to the mesh below a path.
func (h *fixture) countCalls(path string) *atomic.Int32 {
	var n atomic.Int32
	count := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, path) {
			n.Add(1)
		}
	})
	h.onMesh.Store(&count)
	return &n
}

func TestEachPhaseIsPublished(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.wantPublished(state.IDLE)
	check(t, h.agent.Ring("test", ""))
	h.pollAfter(time.Minute)
	h.wantPublished(state.PREP)
	h.pollAfter(6 * time.Minute)
	h.wantPublished(state.IDLE)
	calls := h.countCalls("/")
	h.pollAfter(30 * time.Minute)
	if n := calls.Load(); n != 1 {
		t.Errorf("an empty cycle made %d calls to the mesh, want the one of the mailbox", n)
	}
}

func TestRegistryFailureIsReportedLater(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.meshAnswers(http.MethodPut, http.StatusBadGateway)
	check(t, h.agent.Ring("test", ""))
	h.poll()
	h.wantPhase(state.PREP)
	h.onMesh.Store(nil)
	h.wantPublished(state.IDLE) // it took nothing
	h.pollAfter(time.Minute)
	h.wantPublished(state.PREP)
}

// A mesh that is down is called once in a cycle, and a mesh without a registry
// is not asked again and again.
func TestPublishingCostsNothing(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	var calls atomic.Int32
	answers := func(get, put int) {
		calls.Store(0)
		f := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			calls.Add(1)
			switch {
			case r.Method == http.MethodGet && get != 0:
				w.WriteHeader(get)
			case r.Method == http.MethodPut:
				w.WriteHeader(put)
			}
		})
		h.onMesh.Store(&f)
	}
	answers(http.StatusBadGateway, http.StatusNoContent)
	check(t, h.agent.Ring("test", ""))
	h.poll()
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls to a mesh that is down", n)
	}
	answers(0, http.StatusNotFound)
	h.pollAfter(time.Minute)
	h.pollAfter(time.Minute)
	if n := calls.Load(); n != 3 {
		t.Errorf("%d calls in two cycles to a mesh without a registry, want two looks and one try", n)
	}
}

// The registry shows that an agent sleeps once its inbox is empty after a turn, and that it is
// awake after a message came.
func TestRegistryShowsSleep(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	if h.presence().Asleep {
		t.Error("asleep while its message came")
	}
	h.pollAfter(time.Minute)
	if !h.presence().Asleep {
		t.Error("awake with nothing left to do")
	}
}

// An agent with an empty inbox is marked asleep, and a message wakes it before its turn. A
// message or a nudge ends a sleep that the agent asked for.
func TestSleepMarks(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	asleep := func(want, rests bool) {
		t.Helper()
		s := h.status()
		if s.Asleep != want || (s.SleepUntil != nil) != rests {
			t.Errorf("asleep %v, until %v; want %v, %v", s.Asleep, s.SleepUntil, want, rests)
		}
	}
	asleep(false, false)
	h.playScript("us sleep 10m; echo good night\n")
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	asleep(true, true)
	h.clock.advance(time.Minute)
	h.queue("wake up")
	asleep(false, false)
	h.poll()
	asleep(true, true)
	check(t, h.agent.Ring("test", ""))
	h.poll()
	asleep(true, false)

	h.playScript("us sleep 10m; echo good night\n")
	h.queue("again")
	h.poll()
	asleep(true, true)
	h.clock.advance(11 * time.Minute)
	asleep(true, false)
}
