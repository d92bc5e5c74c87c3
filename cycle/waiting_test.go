package cycle_test

import (
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/cycle/view"
	"agentstateloop/state"
)

// TestWhyWaits checks each reason for which a message of the terminal has no answer yet. never is
// set if no running process will end the wait.
func TestWhyWaits(t *testing.T) {
	t.Parallel()
	head := state.Head{Status: state.HeadRunning, TurnID: "t1", Epoch: 1, Since: morning}
	of := func(key string) state.Head {
		h := head
		h.Key = key
		return h
	}
	suspended := func(key string) state.Head {
		h := of(key)
		h.Status, h.ResumeBy = state.HeadSuspended, morning.Add(time.Hour)
		h.Waiting = []state.Wait{{ID: "ask.1", To: peer, By: h.ResumeBy}}
		return h
	}
	other := state.Message{Key: "mesh:1", Source: state.Mesh, From: peer, Status: state.Queued}
	for _, test := range []struct {
		name  string
		how   func(*state.State, *cycle.Agent)
		want  view.WaitReason
		who   string
		never bool
	}{
		{"no poll has taken it", func(*state.State, *cycle.Agent) {}, view.WaitPoll, "", false},
		{"no runner", func(_ *state.State, a *cycle.Agent) { a.Turn = nil }, view.WaitNoRunner, "", true},
		{"HALT", func(s *state.State, _ *cycle.Agent) { s.HaltedMesh = true }, view.WaitHalted, "", true},
		{"rest", func(s *state.State, _ *cycle.Agent) { s.CooldownUntil = morning.Add(5 * time.Minute) }, view.WaitCooldown, "", true},
		{"short rest", func(s *state.State, _ *cycle.Agent) { s.CooldownUntil = morning.Add(5 * time.Second) }, view.WaitCooldown, "", false},
		{"money", func(_ *state.State, a *cycle.Agent) { a.Policy.Budget = state.Budget{HasCredit: true} }, view.WaitMoney, "", true},
		{"its own turn", func(s *state.State, _ *cycle.Agent) { s.Turn = of("cli:1") }, view.WaitWorking, "me", false},
		{"its own turn under HALT", func(s *state.State, _ *cycle.Agent) { s.Turn = of("cli:1"); s.HaltedHere = true }, view.WaitWorking, "me", false},
		{"its own turn asks", func(s *state.State, _ *cycle.Agent) { s.Turn = suspended("cli:1") }, view.WaitSuspended, peer, false},
		{"another turn", func(s *state.State, _ *cycle.Agent) {
			s.Inbox = append(s.Inbox, other)
			s.Turn = of("mesh:1")
		}, view.WaitTurn, peer, false},
		{"another turn asks", func(s *state.State, _ *cycle.Agent) {
			s.Inbox = append(s.Inbox, other)
			s.Turn = suspended("mesh:1")
		}, view.WaitReports, peer, false},
		{"another message first", func(s *state.State, _ *cycle.Agent) { s.Inbox = append([]state.Message{other}, s.Inbox...) }, view.WaitBehind, peer, false},
		{"one that comes later", func(s *state.State, _ *cycle.Agent) { s.Inbox = append(s.Inbox, other) }, view.WaitPoll, "", false},
		{"collected", func(s *state.State, _ *cycle.Agent) {
			s.Inbox[0].Status, s.Inbox[0].Reason, s.Inbox[0].NextRetryAt = state.Deferred, state.CollectReason, morning.Add(time.Minute)
		}, view.WaitDeferred, "", false},
		{"the login was refused before", func(s *state.State, a *cycle.Agent) {
			a.Policy.Login = "agent:claude"
			s.Credentials = map[string]state.Credential{"agent:claude": {Failures: 1, Since: morning}}
		}, view.WaitPoll, "", false},
		{"the login was refused for it", func(s *state.State, a *cycle.Agent) {
			a.Policy.Login = "agent:claude"
			s.Credentials = map[string]state.Credential{"agent:claude": {Failures: 1, Since: morning}}
			s.Inbox[0].Status, s.Inbox[0].TurnID, s.Inbox[0].NextRetryAt = state.Deferred, "t1", morning.Add(time.Minute)
		}, view.WaitCredential, "agent:claude", true},
		{"mail cannot be read", func(s *state.State, _ *cycle.Agent) { s.LastMailRead = morning.Add(-time.Hour) }, view.WaitSource, "", false},
		{"the login of the mailbox is refused", func(s *state.State, _ *cycle.Agent) {
			s.Credentials = map[string]state.Credential{state.CredentialIMAP: {Failures: 1, Since: morning}}
		}, view.WaitSource, state.CredentialIMAP, false},
		{"nobody polls", func(s *state.State, a *cycle.Agent) {
			a.Schedule.Mode, s.LastStep = cycle.ModeNone, morning.Add(-3*time.Minute)
		}, view.WaitPoll, "", true},
		{"cron does not run", func(s *state.State, _ *cycle.Agent) {
			s.LastStep, s.NextDue = morning.Add(-4*time.Minute), morning.Add(-3*time.Minute)
		}, view.WaitPoll, "", true},
		{"cron comes", func(s *state.State, _ *cycle.Agent) {
			s.LastStep, s.NextDue = morning.Add(-4*time.Minute), morning.Add(time.Minute)
		}, view.WaitPoll, "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newAwakeFixture(t)
			s := h.state()
			s.Inbox = []state.Message{{Key: "cli:1", Source: state.CLI, From: "me", Operator: true, Status: state.Queued}}
			test.how(&s, h.agent)
			if s.Turn.Key == "cli:1" {
				s.Inbox[0].Status, s.Inbox[0].TurnID = state.Processing, "t1"
			}
			got := h.agent.View().WhyWaits(s, "cli:1")
			if got.Why != test.want || got.Who != test.who || got.Never != test.never {
				t.Errorf("%+v, want %s of %q, never %v", got, test.want, test.who, test.never)
			}
		})
	}
}
