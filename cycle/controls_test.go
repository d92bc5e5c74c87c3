package cycle_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/state"
)

// `tell` is an operator's message from the terminal: it is answered there, and
// nothing is mailed but what the phase requires.
func TestTellIsAnsweredAtTheTerminal(t *testing.T) {
	h := newAwakeHouse(t)
	key, err := h.agent.Tell(t.Context(), "me", "what are you working on?")
	check(t, err)
	h.poll()
	d, err := h.agent.Await(t.Context(), key)
	check(t, err)
	if d.Text != "I read: what are you working on?" || d.Outcome != state.Success || d.TurnID == "" {
		t.Errorf("deliverable: %+v", d)
	}
	h.wantPhase(state.PREP)
	h.wantSent("")
}

func TestTellRefusesNothing(t *testing.T) {
	h := newAwakeHouse(t)
	if _, err := h.agent.Tell(t.Context(), "me", " \n"); err == nil {
		t.Error("an empty message was taken")
	}
	if s := h.state(); len(s.Inbox) != 0 {
		t.Errorf("inbox: %+v", s.Inbox)
	}
}

// The end of the wait does not end the turn.
func TestAwaitEndsWithItsContext(t *testing.T) {
	h := newAwakeHouse(t)
	key, err := h.agent.Tell(t.Context(), "me", "hello")
	check(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.agent.Await(ctx, key); !errors.Is(err, context.Canceled) {
		t.Errorf("await: %v", err)
	}
	if _, waits := h.state().Message(key); !waits {
		t.Error("the message is gone")
	}
}

// A waiting process finds the deliverable from the moment the turn is over,
// even while its history line is being written.
func TestAwaitFindsADeliverableThatIsNotInTheHistoryYet(t *testing.T) {
	h := newAwakeHouse(t)
	key, err := h.agent.Tell(t.Context(), "me", "hello")
	check(t, err)
	var found []string
	h.agent.Store.Hook = func(step, _ string) error {
		s := h.state()
		if _, waits := s.Message(key); step != "append" || waits {
			return nil
		}
		d, err := h.blueprint.agent(h.clock.Now).Await(t.Context(), key)
		found = append(found, fmt.Sprint(d.Text, err))
		return nil
	}
	h.poll()
	if len(found) == 0 || found[0] != "I read: hello<nil>" {
		t.Errorf("found %q", found)
	}
}

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

// --if-due does not use the network until something is due.
func TestIfDueDoesNothingBeforeItsTime(t *testing.T) {
	h := newAwakeHouse(t)
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

func TestStatusShowsWhatIs(t *testing.T) {
	h := newAwakeHouse(t)
	_, err := h.agent.Halt(t.Context(), "test")
	check(t, err)
	h.receive(letter{id: "<one@example.com>"})
	h.receive(letter{id: "<two@example.com>", fields: "List-Id: <x.example.com>\r\n"})
	h.mail.SetPassword("changed")
	h.poll()
	h.mail.SetPassword(h.mail.Password)
	h.poll()
	s, err := h.agent.Status()
	check(t, err)
	if s.Agent != handle || s.Phase != state.PREP || !s.Halted || s.NextDue == nil || s.Deadline == nil {
		t.Errorf("status: %+v", s)
	}
	if s.Inbox.Waiting != 1 || s.Inbox.Quarantined != 1 || s.Turn.Status != state.HeadIdle || s.Turn.ID != nil {
		t.Errorf("inbox %+v, turn %+v", s.Inbox, s.Turn)
	}
	if len(s.Credentials) != 0 || s.Schedule.Installed == nil || *s.Schedule.Installed != "*/30 * * * *" {
		t.Errorf("credentials %+v, schedule %+v", s.Credentials, s.Schedule)
	}
}
