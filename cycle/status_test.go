package cycle_test

import (
	"strings"
	"testing"
	"time"

	"agentstateloop/cycle/view"
	"agentstateloop/state"
	"agentstateloop/turn"
)

func TestStatus(t *testing.T) {
	h := newAwakeFixture(t)
	h.halt()
	h.receive(letter{id: "<one@example.com>"})
	h.receive(letter{id: "<two@example.com>", fields: "List-Id: <x.example.com>\r\n"})
	h.mail.SetPassword("changed")
	h.poll()
	h.mail.SetPassword(h.mail.Password)
	h.poll()
	s := h.status()
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

// The status of another process shows what the agent does, as long as the agent
// lives (docs/protocol.md, "Status").
func TestStatusShowsTheTurnOfAnotherProcess(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.agent.Turn.Runner = turn.Claude
	_, goOn := h.pipe("go")
	h.playScript(fakeClaude + `
init s1
tool Bash
read -r line <go
answer done
`)
	h.receive(letter{id: "<one@example.com>"})
	wait := h.pollInBackground()
	observer := h.blueprint.agent(h.clock.Now)
	var seen view.StatusTurn
	until(t, "the tool is seen", func() bool {
		s, err := observer.View().Status()
		check(t, err)
		seen = s.Turn
		return seen.Tool != nil
	})
	if *seen.Tool != "Bash" || *seen.State != "running_tool" || *seen.Lifecycle != "working" || *seen.WaitingToolCount != 1 {
		t.Errorf("turn: %+v", seen)
	}
	if seen.LastOutput == nil || seen.KillAt == nil || !strings.Contains(*seen.KillFor, "ran longer") || seen.CostUSD == nil {
		t.Errorf("turn: %+v", seen)
	}
	goOn()
	wait()
	s, err := observer.View().Status()
	check(t, err)
	if s.Turn.ID != nil || s.Turn.State != nil || s.Turn.Tool != nil {
		t.Errorf("after the turn: %+v", s.Turn)
	}
}

// The status does not show the agent of a killed runner.
func TestStatusShowsNoDeadAgent(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	up, _ := h.pauseFirstAttempt()
	h.receive(letter{id: "<one@example.com>"})
	h.killRunner(func() {
		up()
		until(t, "the view", func() bool { _, err := turn.ReadLive(h.attempt()); return err == nil })
	})
	dir := h.attempt()
	if _, err := turn.End(t.Context(), dir, time.Second); err != nil {
		t.Fatal(err)
	}
	s := h.status()
	if s.Turn.Status != state.HeadRunning || s.Turn.State != nil || s.Turn.KillAt != nil {
		t.Errorf("turn: %+v", s.Turn)
	}
}
