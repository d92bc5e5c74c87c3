package cycle_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/state"
)

func TestTransitionDoesWhatItsStateDoes(t *testing.T) {
	for _, c := range []struct {
		from, to state.Phase
		noMail   bool
		sent     string
		line     string
	}{
		{state.IDLE, state.PREP, false, "ack", "*/1 * * * *"},
		{state.IDLE, state.PREP, true, "", "*/1 * * * *"},
		{state.IDLE, state.ACTIVE, false, "", "*/1 * * * *"},
		{state.IDLE, state.IDLE, false, "", "*/30 * * * *"},
		{state.ACTIVE, state.IDLE, false, "quiet", "*/30 * * * *"},
		{state.ACTIVE, state.IDLE, true, "", "*/30 * * * *"},
		{state.ACTIVE, state.PREP, false, "", "*/1 * * * *"},
		{state.ACTIVE, state.ACTIVE, false, "", "*/1 * * * *"},
	} {
		t.Run(fmt.Sprintf("%s to %s, mail %v", c.from, c.to, !c.noMail), func(t *testing.T) {
			h := newAwakeHouse(t)
			_, err := h.agent.Order(t.Context(), c.from, "", true)
			check(t, err)
			h.poll()
			h.wantSent("")
			_, err = h.agent.Order(t.Context(), c.to, "test", c.noMail)
			check(t, err)
			h.wantPhase(c.to) // durable before any poll
			h.wantLine(c.line, func() { h.poll() })
			h.wantPhase(c.to)
			h.wantSent(c.sent)
		})
	}
}

// HALT holds turns and answers, and mail is still collected; GO releases them.
func TestHaltHoldsAndGoReleases(t *testing.T) {
	h := newAwakeHouse(t)
	_, err := h.agent.Halt(t.Context(), "test")
	check(t, err)
	h.receive(letter{id: "<one@example.com>"})
	if r := h.poll(); r.Arrived != 1 || r.Turns != 0 {
		t.Errorf("halted: %+v", r)
	}
	h.wantSent("")
	if got := h.unread(); len(got) != 0 {
		t.Errorf("collected and unread: %v", got)
	}
	_, err = h.agent.Resume(t.Context(), "test")
	check(t, err)
	h.pollAfter(time.Minute)
	h.wantSent("reply")
}

// A HALT that comes while a turn runs ends the turn; its output is sent at GO.
func TestHaltEndsARunningTurn(t *testing.T) {
	h := newAwakeHouse(t)
	up, _ := h.lingerer()
	h.receive(letter{id: "<one@example.com>"})
	done := make(chan error)
	go func() {
		_, err := h.agent.Poll(t.Context(), cycle.PollOptions{})
		done <- err
	}()
	up()
	_, err := h.blueprint.agent(h.clock.Now).Halt(t.Context(), "test")
	check(t, err)
	check(t, <-done)
	h.wantSent("ack")
	if tasks := h.lines(state.LineTask); len(tasks) != 1 || tasks[0].Outcome != state.Canceled {
		t.Errorf("task lines: %+v", tasks)
	}
	_, err = h.agent.Resume(t.Context(), "test")
	check(t, err)
	h.pollAfter(time.Minute)
	h.wantSent("ack reply")
	if reply := h.sentOf("reply")[0]; !strings.Contains(reply.text, "canceled") {
		t.Errorf("reply: %q", reply.text)
	}
}

// A HALT between two sends holds the second: HALT is checked before each dot.
func TestHaltHoldsWhatIsAboutToBeSent(t *testing.T) {
	h := newAwakeHouse(t)
	var once sync.Once
	hook := func(string) error { // the mail is being sent, its dot is not
		once.Do(func() {
			if _, err := h.blueprint.agent(h.clock.Now).Halt(t.Context(), "test"); err != nil {
				t.Error(err)
			}
		})
		return nil
	}
	h.onRcpt.Store(&hook)
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	h.wantSent("")
	_, err := h.agent.Resume(t.Context(), "test")
	check(t, err)
	h.pollAfter(2 * time.Minute)
	h.wantSent("ack reply")
}
