package listen_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/cycle/listen"
	"agentstateloop/state"
	"agentstateloop/state/store"
)

func TestPipe(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	path := filepath.Join(t.TempDir(), "pipe")
	h.listen(func(l *listen.Listener) { l.Pipe = path })
	write := func(line string) {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		check(t, err)
		_, err = f.WriteString(line)
		check(t, errors.Join(err, f.Close()))
	}
	write("the build is green\n" + strings.Repeat("x", 1<<15) + "\n")
	h.untilPhase(state.PREP)
	write("again\n")
	h.until("three nudges", func(state.State) bool { return h.nudged() == 3 })

	// Another file in its place is an error at the start.
	plain := filepath.Join(t.TempDir(), "plain")
	check(t, os.WriteFile(plain, nil, 0o600))
	l := &listen.Listener{Agents: []*cycle.Agent{newFixture(t).agent}, Pipe: plain, Logf: h.logf}
	if err := l.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "not a named pipe") {
		t.Errorf("a plain file as pipe: %v", err)
	}
}

// A file in the place of the pipe is logged. When it is gone, the pipe is created
// again.
func TestPipeReplaced(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	path := filepath.Join(t.TempDir(), "pipe")
	logged := make(chan string, 10)
	h.listen(func(l *listen.Listener) {
		l.Pipe = path
		l.Logf = func(format string, args ...any) { logged <- fmt.Sprintf(format, args...) }
	})
	check(t, os.Remove(path))
	check(t, os.WriteFile(path, nil, 0o600))
	if text := <-logged; !strings.Contains(text, "not a named pipe") {
		t.Errorf("logged %q", text)
	}
	check(t, os.Remove(path))
	for { // until the pipe exists again
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if errors.Is(err, os.ErrNotExist) {
			<-time.After(10 * time.Millisecond)
			continue
		}
		check(t, err)
		_, err = f.WriteString("ring\n")
		check(t, errors.Join(err, f.Close()))
		break
	}
	h.untilPhase(state.PREP)
}

// A listener removes the pipe that it created when it ends. A pipe that the user made stays, also
// one that replaced ours.
func TestPipeRemovedByItsMaker(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	path := filepath.Join(t.TempDir(), "pipe")
	run := func() { h.listen(func(l *listen.Listener) { l.Pipe = path })() }
	gone := func(step string, want bool) {
		t.Helper()
		if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) != want {
			t.Errorf("%s: is the pipe gone? %v; want %v", step, err, want)
		}
		if _, left := listen.LeftPipe(h.agent.Store); left {
			t.Errorf("%s: the record of the pipe stays", step)
		}
	}
	run()
	gone("it created the pipe", true)

	check(t, syscall.Mkfifo(path, 0o600))
	run()
	gone("the user made the pipe", false)

	check(t, os.Remove(path))
	stop := h.listen(func(l *listen.Listener) { l.Pipe = path })
	check(t, os.Remove(path))
	check(t, syscall.Mkfifo(path, 0o600)) // before the listener notices
	stop()
	gone("the user replaced the pipe", false)
}

// A listener stops serving an agent that is being removed, and releases its lock. With other
// agents it goes on; it ends if it can get no others.
func TestListenerLeavesRemovedAgent(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	other := h.newAgent("other3120")
	reloads := make(chan struct{})
	stop := h.listen(func(l *listen.Listener) {
		l.Agents, l.Fixed, l.ScanEvery = append(l.Agents, other), true, 10*time.Millisecond
		all := l.Agents
		l.Reload = func() ([]*cycle.Agent, bool) { // the configuration of the removed agent was named as a file
			select {
			case reloads <- struct{}{}:
			default:
			}
			return all, true
		}
	})
	remove := func(a *cycle.Agent) {
		t.Helper()
		check(t, a.Store.MarkRemoval())
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		release, err := a.Store.HoldAll(ctx, func(string) {})
		check(t, err)
		release()
	}
	remove(other)
	check(t, other.Store.UnmarkRemoval()) // as when the directory is gone
	for range 3 {
		<-reloads
	}
	lock, err := other.Store.TryLock(store.ListenLock)
	check(t, err)
	if lock == nil {
		t.Error("a reload serves the removed agent again")
	} else {
		check(t, lock.Unlock())
	}
	check(t, other.Store.MarkRemoval()) // for the end of the test
	h.receive("one")
	h.untilPhase(state.PREP) // the first agent is still served
	remove(h.agent)
	for { // until the listener has ended
		if _, err := http.Get(h.web); err != nil {
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	stop()

	l := &listen.Listener{Agents: []*cycle.Agent{other}, Logf: h.logf}
	if err := l.Run(t.Context()); !errors.Is(err, listen.ErrRunning) {
		t.Errorf("a listener begins to serve an agent that is being removed: %v", err)
	}
}
