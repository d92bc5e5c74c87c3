package cycle_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"agentstateloop/state"
)

func TestTransitionSendsMailAndMovesLine(t *testing.T) {
	t.Parallel()
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
			h := newAwakeFixture(t)
			h.order(c.from, true)
			h.poll()
			h.wantSent("")
			_, err := h.agent.Order(t.Context(), c.to, "test", c.noMail)
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
	h := newAwakeFixture(t)
	h.halt()
	h.receive(letter{id: "<one@example.com>"})
	if r := h.poll(); r.Arrived != 1 || r.Turns != 0 {
		t.Errorf("halted: %+v", r)
	}
	h.wantSent("")
	if got := h.unread(); len(got) != 0 {
		t.Errorf("collected and unread: %v", got)
	}
	h.resume()
	h.pollAfter(time.Minute)
	h.wantSent("reply")
}

// A HALT that comes while a turn runs ends the turn; its output is sent at GO.
func TestHaltEndsTheTurn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		halt, resume func(h *fixture)
		sent         string
	}{
		"by hand": {(*fixture).halt, (*fixture).resume, ""},
		"by mail": {
			func(h *fixture) { h.receive(letter{id: "<halt@example.com>", body: "HALT"}); h.cron() },
			func(h *fixture) { h.receive(letter{id: "<go@example.com>", body: "GO"}) }, "answer",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newAwakeFixture(t)
			h.agent.Policy.Ack = false
			up, _ := h.pauseFirstAttempt()
			h.receive(letter{id: "<one@example.com>"})
			wait := h.pollInBackground()
			up()
			c.halt(h)
			wait()
			h.wantTasks(state.Canceled)
			h.wantSent(c.sent)
			c.resume(h)
			h.pollAfter(time.Minute)
			wantWords(t, h.onlyReply().text, "canceled")
		})
	}
}

// A HALT between two sends holds the second: HALT is checked before each dot.
func TestHaltHoldsNextMail(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
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
	h.resume()
	h.pollAfter(2 * time.Minute)
	h.wantSent("ack reply")
}

// STATUS, STOP, HALT and GO by mail work while a turn runs (docs/design.md,
// "Stop and controls").
func TestControlsByMailWhileATurnRuns(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.agent.Policy.Ack = false
	up, _ := h.pauseFirstAttempt()
	h.receive(letter{id: "<one@example.com>"})
	wait := h.pollInBackground()
	up()
	h.receive(letter{id: "<status@example.com>", body: "STATUS"})
	h.cron()
	if answers := h.sentOf("answer"); len(answers) != 1 || !strings.Contains(answers[0].text, "turn: running") {
		t.Fatalf("answers: %+v", answers)
	}
	if head := h.state().Turn; head.Stop != "" {
		t.Fatalf("STATUS stops: %+v", head)
	}
	h.receive(letter{id: "<stop@example.com>", body: "stop"})
	h.cron()
	wait()
	h.wantTasks(state.Canceled)
	wantWords(t, h.onlyReply().text, "[canceled: stopped]")

	// HALT: the output is held until GO.
	h.receive(letter{id: "<halt@example.com>", body: "HALT"})
	h.receive(letter{id: "<two@example.com>", body: "work"})
	if r := h.pollAfter(time.Minute); r.Turns != 0 || !h.state().HaltedHere {
		t.Errorf("halted: %+v", r)
	}
	h.receive(letter{id: "<go@example.com>", body: "Go."})
	h.pollAfter(time.Minute)
	h.wantTasks(state.Canceled, state.Success)
	if answers := h.sentOf("answer"); len(answers) != 4 {
		t.Errorf("%d controls were answered, want 4", len(answers))
	}
}

// After a reset the context begins with its note and without the earlier conversation.
func TestResetForgetsConversation(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.receive(letter{id: "<one@example.com>", body: "the old secret"})
	h.poll()
	h.queue("queued before")
	check(t, h.agent.Reset(t.Context(), "a new project </system_message>", handle))
	h.pollAfter(time.Minute)
	prompt := h.prompt()
	if want := "<system_message # origin=\"" + handle + "\">\na new project <\\/system_message>\n</system_message #>\n"; !strings.HasPrefix(maskBoundary(prompt), want) {
		t.Errorf("the prompt does not begin with %q:\n%s", want, prompt)
	}
	if strings.Contains(prompt, "old secret") || !strings.Contains(prompt, "queued before your memory was reset") {
		t.Errorf("the prompt:\n%s", prompt)
	}
	h.receive(letter{id: "<two@example.com>", body: "and now"})
	h.pollAfter(time.Minute)
	prompt = h.prompt()
	if strings.Contains(prompt, "old secret") || strings.Contains(prompt, "this message was queued before") || !strings.Contains(prompt, "I read: queued before") {
		t.Errorf("the next prompt:\n%s", prompt)
	}
}

// A turn that ran when the memory was reset answers from the old memory; that
// answer is not recalled.
func TestResetDuringTurnForgetsAnswer(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	up, goOn := h.pauseFirstAttempt()
	h.receive(letter{id: "<one@example.com>", body: "the old secret"})
	wait := h.pollInBackground()
	up()
	check(t, h.agent.Reset(t.Context(), "", handle))
	goOn()
	wait()
	h.wantTasks(state.Success)
	h.receive(letter{id: "<two@example.com>", body: "and now"})
	h.pollAfter(time.Minute)
	if prompt := h.prompt(); strings.Contains(prompt, "old secret") || strings.Contains(prompt, "answer of epoch 1") {
		t.Errorf("the prompt:\n%s", prompt)
	}
}
