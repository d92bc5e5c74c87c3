package cycle_test

import (
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/mesh"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

// dieAt returns a hook that ends the process, as a SIGKILL does, at the nth
// moment that matters on the disk: before a file gets its name, between the
// state and its history, and after a commit. Between those moments nothing
// changes that anybody reads; the tests of package store die there too.
func dieAt(n int) store.Hook {
	var moments atomic.Int64
	return func(step, _ string) error {
		switch step {
		case "rename", "append", "done", "remove":
			if int(moments.Add(1)) == n {
				os.Exit(exitDied)
			}
		}
		return nil
	}
}

// newFullFixture returns a fixture in which one mail, one item of a peer and one nudge
// wait. kind is that of the peer's item: a message, which gets a turn and a
// report, or a notice, which is only acknowledged.
func newFullFixture(t *testing.T, kind string) *fixture {
	t.Helper()
	h := newFixture(t)
	h.blueprint.ScheduleMode = cycle.ModeNone // the line is a projection, with tests of its own
	h.agent.Schedule.Mode = cycle.ModeNone
	h.poll()
	h.receive(letter{id: "<one@example.com>"})
	h.post(mesh.Message{ID: "q1", Text: "hello", Kind: kind})
	check(t, h.agent.Ring("test", ""))
	return h
}

// wantMended polls until nothing is left to do, and holds the fixture to
// docs/design.md, "Promises": no message is lost; each gets one turn that
// counts and one deliverable, which is sent under one id with one content; and
// one ack at most.
func (h *fixture) wantMended(what string) {
	h.t.Helper()
	for range 4 {
		h.pollAfter(time.Minute)
	}
	contents := map[string]string{} // by Message-ID
	copies := map[string]int{}
	for _, m := range h.sent() {
		if old, repeated := contents[m.head.MessageID]; repeated && old != m.raw {
			h.t.Errorf("%s: two contents under %s", what, m.head.MessageID)
		}
		contents[m.head.MessageID] = m.raw
		copies[m.kind]++
	}
	ids := map[string]int{}
	for id := range contents {
		ids[kindOf(id)]++
	}
	if ids["reply"] != 1 || copies["ack"] > 1 {
		h.t.Errorf("%s: sent %s", what, h.kinds())
	}
	messages, tasks, reports := h.lines(state.LineMessage), h.lines(state.LineTask), h.reports()
	if len(messages) == 0 || len(tasks) != len(messages) || len(reports) != len(messages)-1 {
		h.t.Errorf("%s: messages %+v, task lines %+v, reports %+v", what, messages, tasks, reports)
	}
	for i, task := range tasks {
		if slices.ContainsFunc(tasks[:i], func(l state.Line) bool { return l.Key == task.Key }) {
			h.t.Errorf("%s: two task lines for %s", what, task.Key)
		}
	}
	if lines := h.lines(state.LineNudge); len(lines) != 1 {
		h.t.Errorf("%s: nudge lines %+v", what, lines)
	}
	if s := h.state(); len(s.Inbox)+len(s.Outbox) != 0 || s.Turn.Status != state.HeadIdle {
		h.t.Errorf("%s: left inbox %+v, outbox %+v, turn %+v", what, s.Inbox, s.Outbox, s.Turn)
	}
	if left := h.unread(); len(left) != 0 {
		h.t.Errorf("%s: unread %v", what, left)
	}
	h.wantAcknowledged()
	h.wantNoNudges()
}

// stepSize is from one moment of a poll that is tried to the next: each is tried where all
// that is real is required, else every seventh. A file is written in three steps, so each
// of them has its turn.
func stepSize() int {
	if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") != "" {
		return 1
	}
	return 7
}

// some returns the cases of a table that are tried: all where all that is real is
// required, else every third by its name, from the one at first on.
func some[T any](all map[string]T, first int) map[string]T {
	if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") != "" {
		return all
	}
	few := map[string]T{}
	for i, name := range slices.Sorted(maps.Keys(all)) {
		if i%3 == first%3 {
			few[name] = all[name]
		}
	}
	return few
}

// A process may die at any step on the disk, before or after any effect: no message is lost or
// handled twice.
func TestPollSurvivesCrashAtAnyStep(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a hundred processes")
	}
	t.Parallel() // it mostly waits for the disk
	for n := 1; ; n += stepSize() {
		h := newFullFixture(t, mesh.KindMessage)
		err := h.poller(h.blueprintFile(), "die-at", strconv.Itoa(n)).Run()
		code := exitCode(err)
		if code == exitDone {
			if n < 40 {
				t.Fatalf("a poll has %d such moments only", n)
			}
			return
		}
		if code != exitDied {
			t.Fatalf("died at step %d with %v", n, err)
		}
		h.wantMended("died at step " + strconv.Itoa(n))
		if n := len(h.reports()); n != 1 {
			t.Errorf("%d reports", n)
		}
	}
}

func exitCode(err error) int {
	if err == nil {
		return exitDone
	}
	if exit, ok := err.(*exec.ExitError); ok {
		return exit.ExitCode()
	}
	return -1
}

// The process is killed during an effect: after the server has received it, and before the
// process knows that.
func TestPollSurvivesKillDuringEffect(t *testing.T) {
	t.Parallel()
	for name, arm := range map[string]func(h *fixture, kill func()){
		"the ack has arrived":        func(h *fixture, kill func()) { h.killAtDot("ack", kill, nil) },
		"the reply has arrived":      func(h *fixture, kill func()) { h.killAtDot("reply", kill, nil) },
		"the reply was dropped":      func(h *fixture, kill func()) { h.killAtDot("reply", kill, net.ErrClosed) },
		"the report has arrived":     func(h *fixture, kill func()) { h.killAtCall(http.MethodPost, kill) },
		"a message was acknowledged": func(h *fixture, kill func()) { h.killAtCall(http.MethodDelete, kill) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newFullFixture(t, mesh.KindMessage)
			cmd := h.poller(h.blueprintFile(), "poll")
			started := make(chan struct{})
			arm(h, func() {
				<-started
				if err := cmd.Process.Kill(); err != nil {
					t.Error(err)
				}
			})
			check(t, cmd.Start())
			close(started)
			cmd.Wait() // its error is that it was killed
			if cmd.ProcessState.Success() {
				t.Fatal("it was not killed")
			}
			h.onData.Store(nil)
			h.onMesh.Store(nil)
			h.wantMended(name)
		})
	}
}

// killAtDot kills when the dot of such a mail has come; the server accepts the
// mail all the same, or answers err.
func (h *fixture) killAtDot(kind string, kill func(), err error) {
	hook := func(_ net.Conn, raw []byte) error {
		if kindOf(messageID(raw)) != kind {
			return nil
		}
		kill()
		return err
	}
	h.onData.Store(&hook)
}

// killAtCall kills when the mesh has taken a call of this method: a POST is our report, and a
// DELETE acknowledges a message.
func (h *fixture) killAtCall(method string, kill func()) {
	hook := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == method {
			h.onMesh.Store(nil)
			h.throughMesh(r)
			kill()
			panic(http.ErrAbortHandler)
		}
	})
	h.onMesh.Store(&hook)
}

// throughMesh passes a request on to the mesh, which must accept it.
func (h *fixture) throughMesh(r *http.Request) {
	req, err := http.NewRequestWithContext(r.Context(), r.Method, h.blueprint.Mesh+r.URL.Path, r.Body)
	if err != nil {
		h.t.Error(err)
		return
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		h.t.Error(err)
		return
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 300 {
		h.t.Errorf("the mesh answered %s", answer.Status)
	}
}
