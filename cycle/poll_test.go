package cycle_test

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

func TestPollWithTakenLocks(t *testing.T) {
	h := newAwakeFixture(t)
	h.receive(letter{id: "<one@example.com>"})
	lock, err := h.agent.Store.TryLock(store.CycleLock)
	check(t, err)
	if _, err := h.agent.Poll(t.Context(), cycle.PollOptions{}); !errors.Is(err, cycle.ErrBusy) {
		t.Errorf("with cycle.lock taken: %v", err)
	}
	check(t, lock.Unlock())

	lock, err = h.agent.Store.TryLock(store.TurnLock)
	check(t, err)
	if r := h.poll(); r.Arrived != 1 || r.Turns != 0 || !r.TurnWaiting {
		t.Errorf("with turn.lock taken: %+v", r)
	}
	check(t, lock.Unlock())
	if r := h.poll(); r.Turns != 1 {
		t.Errorf("with both free: %+v", r)
	}
}

// A process that rings while a cycle runs, and finds it busy, is seen by that
// cycle before it ends (docs/design.md, "Promises" 7).
func TestNudgeDuringCycleIsSeen(t *testing.T) {
	h := newAwakeFixture(t)
	var once sync.Once
	h.agent.Store.Hook = func(step, path string) error {
		if step == "rename" && strings.HasSuffix(path, "state.json") {
			once.Do(func() { h.ringFromOutside() }) // the sources have been read
		}
		return nil
	}
	if r := h.poll(); r.Nudges != 1 || r.After != state.PREP {
		t.Errorf("report: %+v", r)
	}
	h.wantNoNudges()
	h.wantSent("ack")
}

// ringFromOutside rings and polls as another process does, and must find the
// agent busy.
func (h *fixture) ringFromOutside() {
	h.t.Helper()
	other := h.blueprint.agent(h.clock.Now)
	if err := other.Ring("outside", "look"); err != nil {
		h.t.Error(err)
	}
	if _, err := other.Poll(h.t.Context(), cycle.PollOptions{}); !errors.Is(err, cycle.ErrBusy) {
		h.t.Errorf("the poll from outside: %v, want busy", err)
	}
}

func (h *fixture) wantNoNudges() {
	h.t.Helper()
	if rung := h.nudgeFiles(); len(rung) > 0 {
		h.t.Errorf("left in nudges/: %+v", rung)
	}
}

// nudgeFiles returns the names of the files in nudges/.
func (h *fixture) nudgeFiles() []string {
	h.t.Helper()
	list, err := h.agent.Store.Nudges(state.State{})
	check(h.t, err)
	for _, n := range list.New {
		list.Waiting = append(list.Waiting, n.Name)
	}
	return list.Waiting
}

// Sending a turn's reply takes cycle.lock. A process that finds it taken relies on the sender to
// see its nudge.
func TestNudgeDuringSendIsSeen(t *testing.T) {
	h := newAwakeFixture(t)
	detached := h.detached()
	var once sync.Once
	hook := func(_ net.Conn, raw []byte) error {
		if strings.Contains(string(raw), "I read:") {
			once.Do(h.ringFromOutside)
		}
		return nil
	}
	h.onData.Store(&hook)
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	if len(h.nudgeFiles()) > 0 {
		detached() // or the nudge is lost
		h.poll()
	}
	h.wantNoNudges()
	if lines := h.lines(state.LineNudge); len(lines) != 1 {
		t.Errorf("nudges: %+v", lines)
	}
}

// detached makes the detached polls of this fixture report themselves instead of
// polling. The function that it returns waits for one, and returns its
// arguments.
func (h *fixture) detached() (wait func() []string) {
	h.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(h.t, err)
	h.t.Cleanup(func() { listener.Close() })
	h.blueprint.Detached = listener.Addr().String()
	h.agent.Self = h.blueprint.detachedSelf()
	return func() []string {
		h.t.Helper()
		check(h.t, listener.(*net.TCPListener).SetDeadline(time.Now().Add(30*time.Second)))
		conn, err := listener.Accept()
		check(h.t, err)
		defer conn.Close()
		buf := make([]byte, 1000)
		n, err := conn.Read(buf)
		check(h.t, err)
		return strings.Fields(string(buf[:n]))
	}
}

// After three rounds the rest is left to a detached poll, so that no process is
// kept for ever by others that ring.
func TestRoundsAreLimited(t *testing.T) {
	h := newAwakeFixture(t)
	detached := h.detached()
	h.agent.Store.Hook = func(step, path string) error {
		if step == "rename" && strings.HasSuffix(path, "state.json") {
			return h.blueprint.agent(h.clock.Now).Ring("pest", "again")
		}
		return nil
	}
	h.poll()
	if args := detached(); !slices.Equal(args, []string{"poll", "--quiet"}) {
		t.Errorf("detached with %q", args)
	}
	h.agent.Store.Hook = nil
	h.poll()
	h.wantNoNudges()
	h.wantSent("ack")
}

// When many processes nudge and poll at once, each nudge is seen, one ack is sent, and no file is
// left.
func TestManyProcessesRingAndPollAtOnce(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	detached := h.detached()
	file := h.blueprintFile()
	processes := 100
	if os.Getenv("AGENTSTATELOOP_REQUIRE_REAL") == "" {
		processes = 40
	}
	codes := h.pollers(file, slices.Repeat([]string{"ring-and-poll"}, processes))
	for code, n := range codes {
		if code != exitDone && code != exitBusy {
			t.Errorf("%d processes ended with %d", n, code)
		}
	}
	if len(h.nudgeFiles()) > 0 {
		detached() // or nudges are lost
		h.poll()
	}
	h.wantNoNudges()
	if lines := h.lines(state.LineNudge); len(lines) != processes {
		t.Errorf("%d nudges in the history, want %d", len(lines), processes)
	}
	if lines := h.lines(state.LineTransition); len(lines) != 1 {
		t.Errorf("transitions: %+v", lines)
	}
	h.wantSent("ack")
}

// pollers runs one process for each of what, at once, and counts the exit
// codes.
func (h *fixture) pollers(file string, what []string) map[int]int {
	h.t.Helper()
	var mu sync.Mutex
	codes := map[int]int{}
	var wg sync.WaitGroup
	for _, do := range what {
		cmd := h.poller(file, do)
		wg.Go(func() {
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState == nil {
				h.t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			codes[cmd.ProcessState.ExitCode()]++
			if len(out) > 0 {
				h.t.Logf("%s: %s", do, out)
			}
		})
	}
	wg.Wait()
	return codes
}

// poller returns another process of the agent, not started yet.
func (h *fixture) poller(file string, args ...string) *exec.Cmd {
	return exec.CommandContext(h.t.Context(), h.blueprint.Self, append([]string{"__poller", file}, args...)...)
}

// Several runners at once run each message once.
func TestManyProcessesRunEachMessageOnce(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.detached()
	const messages = 6
	for range messages {
		h.queue("hello")
	}
	for code, n := range h.pollers(h.blueprintFile(), slices.Repeat([]string{"poll"}, 5)) {
		if code != exitDone && code != exitBusy {
			t.Errorf("%d processes ended with %d", n, code)
		}
	}
	runs := h.runs()
	slices.Sort(runs)
	if len(runs) != messages || len(slices.Compact(runs)) != messages {
		t.Errorf("runs: %q", runs)
	}
	if tasks := h.lines(state.LineTask); len(tasks) != messages {
		t.Errorf("%d task lines", len(tasks))
	}
}

// A nudge file that a script writes waits for the next poll.
func TestNudgeFilesOfScripts(t *testing.T) {
	h := newAwakeFixture(t)
	dir := h.agent.Store.Path(store.NudgesDir)
	check(t, os.MkdirAll(dir, 0o700))
	for _, name := range []string{"plain", ".hidden", "half.tmp"} {
		check(t, os.WriteFile(dir+"/"+name, []byte("the backup failed\n"), 0o600))
	}
	if r := h.poll(); r.Nudges != 1 || r.After != state.PREP {
		t.Errorf("report: %+v", r)
	}
	h.wantNoNudges()
	if lines := h.lines(state.LineNudge); len(lines) != 1 || lines[0].Reason != "the backup failed" {
		t.Errorf("history: %+v", lines)
	}
}

// --if-due does not use the network until something is due.
func TestIfDueDoesNothingBeforeItsTime(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.receive(letter{id: "<one@example.com>"})
	due := func(want bool) {
		t.Helper()
		r, err := h.agent.Poll(t.Context(), cycle.PollOptions{IfDue: true})
		check(t, err)
		if (r.Skipped == "") != want {
			t.Errorf("at %s: %+v, want due %v", h.clock.Now().Format("15:04:05"), r, want)
		}
	}
	h.clock.advance(29 * time.Minute)
	due(false)
	h.clock.advance(time.Minute + 5*time.Second)
	due(true)
	h.wantSent("ack reply")
	due(false)
	h.clock.advance(35 * time.Second) // the clock may differ from cron's by seconds
	due(true)
	check(t, h.agent.Ring("test", ""))
	due(true)
}
