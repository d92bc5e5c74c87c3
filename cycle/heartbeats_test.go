package cycle_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/cycle/heartbeat"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// monitor is what is asked after each poll.
type monitor struct {
	mu     sync.Mutex
	asked  []string
	answer int           // the code; 0: it hangs until goOn is closed, and answers 503
	goOn   chan struct{} // may be nil
}

// addMonitor gives the agent of h a monitor.
func (h *fixture) addMonitor() *monitor {
	m := &monitor{answer: 200}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		m.asked = append(m.asked, r.RequestURI)
		code := m.answer
		m.mu.Unlock()
		if code == 0 {
			select {
			case <-r.Context().Done():
				return
			case <-m.goOn:
				code = http.StatusServiceUnavailable
			}
		}
		w.WriteHeader(code)
	}))
	h.t.Cleanup(server.Close)
	h.agent.Heartbeat = &heartbeat.Monitor{Address: func(context.Context) (string, error) { return server.URL + "/key", nil }}
	return m
}

// requests returns what was asked since the last call.
func (m *monitor) requests() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	heard := strings.Join(m.asked, " ")
	m.asked = nil
	return heard
}

func (m *monitor) setAnswer(code int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.answer = code
}

// Each poll that ran a cycle makes one request, which reports success or failure.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	m := h.addMonitor()
	wants := func(what, want string) {
		t.Helper()
		if got := m.requests(); got != want {
			t.Errorf("%s: asked %q, want %q", what, got, want)
		}
	}
	h.poll()
	wants("an empty poll", "/key")
	if _, err := h.agent.Poll(t.Context(), cycle.PollOptions{IfDue: true}); err != nil {
		t.Fatal(err)
	}
	wants("nothing was due", "")
	if _, err := h.agent.Preview(t.Context()); err != nil {
		t.Fatal(err)
	}
	wants("a dry run", "")
	lock, err := h.agent.Store.TryLock(store.CycleLock)
	check(t, err)
	if _, err := h.agent.Poll(t.Context(), cycle.PollOptions{}); err != cycle.ErrBusy {
		t.Errorf("%v", err)
	}
	check(t, lock.Unlock())
	wants("another poll is at it", "")
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.agent.Poll(canceled, cycle.PollOptions{}); err != cycle.ErrInterrupted {
		t.Errorf("%v", err)
	}
	wants("interrupted", "")

	h.meshSays(http.StatusInternalServerError, "no")
	h.pollAfter(time.Minute)
	wants("a source failed", "/key/fail")
	h.meshSays(http.StatusUnauthorized, "no")
	h.pollAfter(time.Minute)
	wants("a login was refused", "/key/fail")
	h.onMesh.Store(nil)
	h.pollAfter(time.Minute)
	wants("it works again", "/key")

	h.playScript("echo yes\n")
	h.tell("hello")
	wants("a turn", "/key")
	h.playScript("exit 1\n")
	h.tell("hello")
	wants("a turn failed", "/key/fail")
	h.pollAfter(time.Minute)
	wants("nothing more failed", "/key")
	h.playScript("exit 77\n") // not logged in
	h.tell("hello")
	wants("the agent is not logged in", "/key/fail")
	h.playScript("echo yes\n")
	h.pollAfter(time.Minute)
	wants("it is again", "/key")

	h.halt()
	h.pollAfter(time.Minute)
	wants("halted, and alive", "/key")

	// A poll whose caller sees to the turn leaves it to the poll of the turn.
	h.resume()
	h.queue("hello")
	_, err = h.agent.Poll(t.Context(), cycle.PollOptions{NoTurn: true, LeaveLarge: true})
	check(t, err)
	wants("a turn is left", "")
	h.collect()
	wants("a turn is left by a person", "/key")
	h.poll()
	wants("and run", "/key")

	// The poll itself fails.
	check(t, os.Rename(h.agent.Store.Dir, h.agent.Store.Dir+".away"))
	check(t, os.WriteFile(h.agent.Store.Dir, nil, 0o600))
	if _, err := h.agent.Poll(t.Context(), cycle.PollOptions{}); err == nil {
		t.Error("a poll without a state directory")
	}
	wants("the poll failed", "/key/fail")
}

// A long turn does not delay the request of its poll. The next accepted request reports that the
// turn failed.
func TestHeartbeatOfALongTurn(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	m := h.addMonitor()
	h.agent.Heartbeat.TurnPatience = time.Millisecond
	h.playScript("echo begun >began\nread go <end\nexit 1\n")
	began, _ := h.pipe("began")
	_, finish := h.pipe("end")
	h.queue("hello")
	wait := h.pollInBackground()
	began()
	until(t, "the request during the turn", func() bool { m.mu.Lock(); defer m.mu.Unlock(); return len(m.asked) == 1 })
	if got := m.requests(); got != "/key" {
		t.Errorf("during the turn: %q", got)
	}
	finish()
	if r := wait(); r.Turns != 1 || len(r.Failed) != 0 {
		t.Errorf("%+v", r)
	}
	h.agent.Heartbeat.TurnPatience = 0
	if got := m.requests(); got != "" {
		t.Errorf("at the end of the turn: %q", got)
	}
	for _, step := range []struct {
		answer int
		want   string
	}{{503, "/key/fail"}, {200, "/key/fail"}, {200, "/key"}} {
		m.setAnswer(step.answer)
		h.pollAfter(time.Minute)
		if got := m.requests(); got != step.want {
			t.Errorf("the next poll, answered %d: %q, want %q", step.answer, got, step.want)
		}
	}

	// A request that fails is not repeated, and what it said about a turn is told later.
	h.playScript("exit 1\n")
	m.setAnswer(500)
	h.tell("hello")
	m.setAnswer(200)
	h.pollAfter(time.Minute)
	h.pollAfter(time.Minute)
	if got := m.requests(); got != "/key/fail /key/fail /key" {
		t.Errorf("after an answer 500: %q", got)
	}
}

// A poll does the same with any monitor as without one. A failing monitor only causes a line in
// the log.
func TestHeartbeatThatFails(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]int{"none": -1, "taken": 200, "refused": 500, "moved": 302, "hangs": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			patience := heartbeat.Patience
			if answer == 0 {
				patience = 200 * time.Millisecond
			}
			heard := heartbeatFails(t, answer, patience)
			for ; answer == 0 && heard != "/key /key" && patience < time.Minute; patience *= 2 {
				heard = heartbeatFails(t, answer, patience) // how soon the monitor is asked depends on the machine
			}
			if answer >= 0 && heard != "/key /key" {
				t.Errorf("asked %q, not once for each poll", heard)
			}
		})
	}
}

// heartbeatFails checks what comes of a poll with a turn, and of the next one, with a
// monitor that answers this; -1: without one. It returns what the monitor was asked.
func heartbeatFails(t *testing.T, answer int, patience time.Duration) (heard string) {
	h := newFixture(t)
	h.playScript("echo yes\n")
	m := new(monitor)
	if answer >= 0 {
		m = h.addMonitor()
		m.setAnswer(answer)
		h.agent.Heartbeat.Patience = patience
	}
	h.receive(letter{id: "<q@example.com>"})
	r := h.poll()
	if len(r.Failed) != 0 || r.Turns != 1 || len(h.sentOf("reply")) != 1 {
		t.Errorf("%+v", r)
	}
	h.pollAfter(time.Minute)
	s := h.state()
	if len(s.Credentials) != 0 || len(h.sentOf("notice")) != 0 || len(h.lines(state.LineSpend)) != 0 {
		t.Errorf("%+v", s.Credentials)
	}
	log, err := os.ReadFile(filepath.Join(h.agent.Store.Dir, "log"))
	check(t, err)
	lines := slices.DeleteFunc(strings.Split(string(log), "\n"), func(l string) bool { return !strings.Contains(l, "heartbeat") })
	wanted := map[int]string{500: "500 Internal", 302: "302 Found", 0: "no answer within " + patience.String()}[answer]
	if wanted == "" && len(lines) != 0 || wanted != "" && (len(lines) != 2 || !strings.Contains(lines[0], wanted)) {
		t.Errorf("the log has %q", lines)
	}
	return m.requests()
}

// The poll of a process that lives on returns before its request is answered.
func TestHeartbeatInTheBackground(t *testing.T) {
	h := newFixture(t)
	m := h.addMonitor()
	m.setAnswer(0)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel() // or the request would last for Patience
	_, err := h.agent.Poll(ctx, cycle.PollOptions{NoTurn: true, LeaveLarge: true, LivesOn: true})
	check(t, err)
	if log, err := os.ReadFile(filepath.Join(h.agent.Store.Dir, "log")); err != nil || strings.Contains(string(log), "heartbeat") {
		t.Errorf("the poll waited for its answer: %s, %v", log, err)
	}
	until(t, "the request", func() bool { m.mu.Lock(); defer m.mu.Unlock(); return len(m.asked) == 1 })
}

// A poll that lingers asks for each of its polls, and does not wait for the answer before
// it looks again.
func TestHeartbeatOfALingeringPoll(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	m := h.addMonitor()
	h.agent.Heartbeat.Patience = time.Minute
	h.playScript("exit 1\n")
	h.poll() // the baseline
	m.requests()
	m.goOn = make(chan struct{})
	m.setAnswer(0)
	done := make(chan cycle.Report, 1)
	go func() {
		r, _ := h.agent.PollLingering(t.Context(), cycle.PollOptions{}, time.Minute)
		done <- r
	}()
	until(t, "the first request", func() bool { m.mu.Lock(); defer m.mu.Unlock(); return len(m.asked) == 1 })
	h.receive(letter{id: "<q@example.com>"})
	until(t, "the second request", func() bool { m.mu.Lock(); defer m.mu.Unlock(); return len(m.asked) == 2 })
	close(m.goOn)
	<-done
	if got := m.requests(); got != "/key /key/fail" {
		t.Errorf("asked %q", got)
	}
	m.setAnswer(200)
	h.pollAfter(time.Minute)
	h.pollAfter(time.Minute)
	if got := m.requests(); got != "/key/fail /key" {
		t.Errorf("the next polls asked %q", got)
	}
}
