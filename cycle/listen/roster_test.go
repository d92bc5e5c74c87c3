package listen_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/cycle/listen"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// roster gives a listener other agents, and waits until it serves them.
type roster struct {
	mu     sync.Mutex
	agents []*cycle.Agent
	taken  chan struct{} // closed when they are served; nil if they are
	asked  bool
}

// reload is the Reload of the listener. The call after the one that returned the
// agents shows that they are served.
func (r *roster) reload() ([]*cycle.Agent, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken == nil {
		return nil, false
	}
	if !r.asked {
		r.asked = true
		return r.agents, true
	}
	close(r.taken)
	r.taken = nil
	return nil, false
}

func (r *roster) serve(agents ...*cycle.Agent) {
	r.mu.Lock()
	r.agents, r.asked, r.taken = agents, false, make(chan struct{})
	taken := r.taken
	r.mu.Unlock()
	<-taken
}

// An added agent is served, a changed agent loses no wake, and a removed agent is free for
// another listener. Other agents are not disturbed.
func TestRosterChanges(t *testing.T) {
	t.Parallel()
	h := newFixture(t)
	loaded := *h.agent // before a poll uses it
	r := &roster{}
	h.listen(func(l *listen.Listener) { l.Reload, l.ScanEvery = r.reload, 5*time.Millisecond })
	quiet := h.newAgent("quiet")
	_, err := quiet.Poll(t.Context(), cycle.PollOptions{})
	check(t, err)
	r.serve(h.agent, quiet)
	if code := h.call("POST", "/nudge/quiet", "", "Authorization", bearer); code != http.StatusAccepted {
		t.Fatalf("an added agent: answered %d", code)
	}
	seen := quiet.Store
	for end := time.Now().Add(time.Minute); ; {
		s, err := seen.Read()
		check(t, err)
		if s.Phase == state.PREP {
			break
		}
		if time.Now().After(end) {
			t.Fatal("an added agent is not polled")
		}
		<-time.After(5 * time.Millisecond)
	}

	// Change the agent repeatedly while every source wakes it.
	const rings = 20
	for i := range rings {
		check(t, h.agent.Ring("test", fmt.Sprint(i)))
		if code := h.call("POST", "/nudge/"+handle, "", "Authorization", bearer); code != http.StatusAccepted && code != http.StatusNotFound {
			t.Errorf("answered %d", code)
		}
		check(t, h.peer.Nudge(t.Context(), handle, "", ""))
		changed := loaded
		r.serve(&changed, quiet)
	}
	h.until("every nudge", func(s state.State) bool {
		list, err := h.agent.Store.Nudges(state.State{})
		check(t, err)
		box, err := h.agent.Mesh.Carrier.Mailbox(t.Context(), 0)
		check(t, err)
		return len(list.New) == 0 && len(box.Messages) == 0
	})
	// Several times, because a poll under way may find the first mail by itself.
	for i := range 4 {
		h.receive(fmt.Sprint("after all that ", i))
		h.until("a mail", func(s state.State) bool { return len(s.Inbox) == 2*i+1 })
		_, err := h.peer.Send(t.Context(), mesh.Message{To: handle, Text: "hello"})
		check(t, err)
		h.until("a message", func(s state.State) bool { return len(s.Inbox) == 2*i+2 })
	}

	h.mu.Lock()
	if len(h.logged) > 0 {
		t.Errorf("logged %q", h.logged)
	}
	h.mu.Unlock()

	r.serve(quiet)
	if code := h.call("POST", "/nudge/"+handle, "", "Authorization", bearer); code != http.StatusNotFound {
		t.Errorf("a removed agent: answered %d", code)
	}
	lock, err := h.agent.Store.TryLock("listen.lock")
	if err != nil || lock == nil {
		t.Fatalf("the lock of a removed agent is not released: %v", err)
	}
	// Another listener has it now. It is served as soon as it is free.
	r.serve(quiet, h.agent)
	check(t, lock.Unlock())
	r.serve(quiet, h.agent)
	if code := h.call("POST", "/nudge/"+handle, "", "Authorization", bearer); code != http.StatusAccepted {
		t.Errorf("an agent that came back: answered %d", code)
	}
	r.serve()
	if code := h.call("POST", "/nudge", "", "Authorization", bearer); code != http.StatusNotFound {
		t.Errorf("without any agent: answered %d", code)
	}
}
