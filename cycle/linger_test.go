package cycle_test

import (
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// newEngagedFixture returns a fixture whose agent is in PREP.
func newEngagedFixture(t *testing.T) *fixture {
	t.Helper()
	h := newAwakeFixture(t)
	check(t, h.agent.Ring("test", ""))
	h.poll()
	h.wantPhase(state.PREP)
	return h
}

// onCommit calls f after each commit, without delaying it.
func (h *fixture) onCommit(f func(state.State)) {
	h.agent.Store.Hook = func(step, _ string) error {
		if step == "done" {
			go func() {
				if s, err := h.agent.Store.Read(); err == nil {
					f(s)
				}
			}()
		}
		return nil
	}
}

// lingerAfter lingers for a minute, and moves the clock once the poll lingers.
func (h *fixture) lingerAfter(d time.Duration) {
	h.t.Helper()
	var once atomic.Bool
	lingers := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("wait") && once.CompareAndSwap(false, true) { // only a poll that lingers holds a long poll
			h.clock.advance(d)
		}
	})
	h.onMesh.Store(&lingers)
	_, err := h.agent.PollLingering(h.t.Context(), cycle.PollOptions{}, time.Minute)
	check(h.t, err)
}

// A message that comes while a poll lingers gets its turn at once and ends the lingering.
func TestLingerReacts(t *testing.T) {
	for name, come := range map[string]func(h *fixture){
		"mail": func(h *fixture) { h.receive(letter{id: "<one@example.com>"}) },
		"mesh": func(h *fixture) { h.post(mesh.Message{Text: "hello"}) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newEngagedFixture(t)
			var once atomic.Bool
			h.onCommit(func(state.State) {
				if once.CompareAndSwap(false, true) { // the lingering poll itself has begun
					come(h)
				}
			})
			_, err := h.agent.PollLingering(t.Context(), cycle.PollOptions{}, time.Minute)
			check(t, err)
			h.wantRuns(1)
		})
	}
}

// The poll and its lingering use one login. One process lingers at a time, and none beyond its
// time.
func TestLingerIsOneLogin(t *testing.T) {
	t.Parallel()
	h := newEngagedFixture(t)
	lock, err := h.agent.Store.TryLock(store.LingerLock)
	check(t, err)
	_, err = h.agent.PollLingering(t.Context(), cycle.PollOptions{}, time.Minute)
	check(t, err) // it did not wait
	check(t, lock.Unlock())

	wire := h.countedWire()
	_, err = h.agent.PollLingering(t.Context(), cycle.PollOptions{}, 300*time.Millisecond)
	check(t, err)
	if n := wire.accepted.Load(); n != 1 {
		t.Errorf("%d connections to the mailbox", n)
	}
}

// countedListener counts its connections.
type countedListener struct {
	net.Listener
	accepted atomic.Int32
}

func (l *countedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.accepted.Add(1)
	}
	return conn, err
}

// countedWire puts a listener of its own between the agent and its mailbox.
func (h *fixture) countedWire() *countedListener {
	h.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(h.t, err)
	l := &countedListener{Listener: ln}
	go h.mail.ServeIMAP(l) // ends with Close
	h.agent.Mail.Mailbox.Addr = ln.Addr().String()
	return l
}

// The line lingers while the agent is engaged, and not in IDLE.
func TestCrontabLineLingers(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	h.agent.Schedule.Linger = 50 * time.Second
	h.poll()
	if s := h.state(); strings.Contains(s.Schedule.Installed, "--linger") {
		t.Errorf("IDLE lingers: %s", s.Schedule.Installed)
	}
	check(t, h.agent.Ring("test", ""))
	h.poll()
	if s := h.state(); !strings.Contains(s.Schedule.Installed, " poll --if-due --quiet --linger 50s # ") {
		t.Errorf("PREP does not linger: %s", s.Schedule.Installed)
	}
	h.pollAfter(6 * time.Minute)
	if s := h.state(); strings.Contains(s.Schedule.Installed, "--linger") {
		t.Errorf("back in IDLE it lingers: %s", s.Schedule.Installed)
	}
}
