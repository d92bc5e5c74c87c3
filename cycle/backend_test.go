package cycle_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/cycle"
	"agentstateloop/state"
	"agentstateloop/turn"
)

// TestLimitDefersMessages checks that messages wait for the end of a limit, that the operator is
// mailed that time once, and that one attempt is made then.
func TestLimitDefersMessages(t *testing.T) {
	t.Parallel()
	h := newClaudeFixture(t, `
init s1; [ -e limit ] && limited $(cat limit); answer hello
`)
	until := h.clock.Now().Add(3*time.Hour + 7*time.Minute)
	h.write("limit", fmt.Sprint(until.Unix()))
	h.receive(letter{id: "<one@example.com>", body: "one"})
	h.receive(letter{id: "<two@example.com>", body: "two"})
	h.poll()
	for range 6 {
		h.pollAfter(30 * time.Minute)
	}
	h.wantTasks()
	h.wantRuns(1)
	told := h.sentOf("notice")
	if len(told) != 1 || !strings.Contains(told[0].text, until.UTC().Format("2006-01-02 15:04 MST")) || !strings.Contains(told[0].text, "5-hour limit") {
		t.Errorf("notices: %+v", told)
	}
	s := h.state()
	if alarm, ok := s.NextAlarm(h.agent.Policy, h.clock.Now()); !ok || alarm.Sub(until) > time.Minute || alarm.Before(until) {
		t.Errorf("the alarm is at %v, %v; the limit ends at %v", alarm, ok, until)
	}
	st := h.status()
	if len(st.Inbox.Deferrals) != 1 || st.Inbox.Deferrals[0].Count != 2 || !st.Inbox.Deferrals[0].Next.Equal(until) {
		t.Errorf("status: %+v", st.Inbox)
	}

	h.pollAfter(2 * time.Hour) // it is still reached
	if runs := h.runs(); len(runs) != 2 || len(h.sentOf("notice")) != 1 {
		t.Errorf("attempts: %q", runs)
	}
	for range 4 { // more often than a message may fail
		h.pollAfter(2 * time.Hour)
	}
	if runs := h.runs(); len(runs) != 6 || len(h.sentOf("notice")) != 1 {
		t.Errorf("attempts: %q", runs)
	}
	h.wantTasks()
	check(t, os.Remove(filepath.Join(h.blueprint.Dir, "limit")))
	h.pollAfter(2 * time.Hour)
	h.wantTasks(state.Success, state.Success)
	if len(h.state().Outages) != 0 || h.state().FailedTurns != 0 {
		t.Errorf("%+v", h.state().Outages)
	}
}

// newFallbackFixture returns a fixture with a fake claude that is out while the file "limit" exists,
// and a fallback of the same kind with sessions of its own that begin with f.
func newFallbackFixture(t *testing.T, fallback string) *fixture {
	h := newClaudeFixture(t, `
case "$*" in *second*) `+fallback+`;; esac
init s1; [ -e limit ] && limited $(cat limit); [ -e login ] && refused; answer first
`)
	second := *h.agent.Turn
	second.Command = append(slices.Clone(second.Command), "second")
	second.LoginName = "agent:claude:1"
	h.agent.Backends = []cycle.Backend{{Name: second.LoginName, Turn: &second, Rights: h.agent.Rights}}
	h.agent.Policy.Login = h.agent.Turn.Login()
	h.agent.Policy.Backends = cycle.BackendNames(h.agent.Turn, h.agent.Backends)
	return h
}

// TestFallbackAnswersDuringLimit checks that another backend answers during a limit, that mail
// and history give the reason, that each backend keeps its session, and that the first backend
// continues as soon as it can, with the exchanges that it missed.
func TestFallbackAnswersDuringLimit(t *testing.T) {
	t.Parallel()
	h := newFallbackFixture(t, `init f1; answer second; exit`)
	h.receive(letter{id: "<one@example.com>", body: "one"})
	h.poll()
	until := h.clock.Now().Add(time.Hour)
	h.write("limit", fmt.Sprint(until.Unix()))
	h.receive(letter{id: "<two@example.com>", body: "the word is swordfish"})
	h.receive(letter{id: "<three@example.com>", body: "three"})
	h.pollAfter(time.Minute)
	h.wantSessions("- s1 - f1")
	h.wantTasks(state.Success, state.Success, state.Success)
	replies := h.sentOf("reply")
	if last := strings.TrimSpace(replies[2].text); !strings.HasPrefix(last, "second\n") || !strings.HasSuffix(last, "[answered by fallback 1 (claude). The usage limit of claude is reached: You've hit your 5-hour limit]") {
		t.Errorf("the reply: %q", last)
	}
	if len(h.sentOf("notice")) > 0 {
		t.Errorf("notices: %+v", h.sentOf("notice"))
	}
	if n := h.count(state.LineBackend, "out"); n != 1 {
		t.Errorf("%d lines about the limit", n)
	}
	check(t, os.Remove(filepath.Join(h.blueprint.Dir, "limit")))
	for at := h.clock.Now(); !at.After(until); at = h.clock.Now() { // the phase stays, and with it the sessions
		h.receive(letter{id: fmt.Sprintf("<%d@example.com>", at.Unix()), body: "go on"})
		h.pollAfter(5 * time.Minute)
	}
	if got := h.sessions(); !strings.HasSuffix(got, "f1 s1") {
		t.Errorf("sessions: %q", got)
	}
	wantWords(t, h.prompt(), "while another model answered in your place", "the word is swordfish")
}

// A login that is refused, and a program that cannot be started, are no reason to wait where
// there is a fallback.
func TestFallbackForRefusedLogin(t *testing.T) {
	t.Parallel()
	h := newFallbackFixture(t, `init f1; answer second; exit`)
	h.write("login", "")
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	h.wantTasks(state.Success)
	h.wantCredentials("agent:claude 1")
	if o := h.state().Outages["agent:claude"]; o.Kind != state.LoginRefused {
		t.Errorf("%+v", h.state().Outages)
	}
	h.agent.Turn.Command = []string{"no-such-agent"}
	h.receive(letter{id: "<two@example.com>"})
	h.pollAfter(10 * time.Minute)
	h.wantTasks(state.Success, state.Success)
	wantWords(t, h.sentOf("reply")[1].text, "claude cannot run on this machine")
}

// With every backend out, the message waits for the first that comes back.
func TestAllBackendsOut(t *testing.T) {
	t.Parallel()
	h := newFallbackFixture(t, `init f1; [ -e limit ] && limited $(cat late); answer second; exit`)
	now := h.clock.Now()
	h.write("limit", fmt.Sprint(now.Add(time.Hour).Unix()))
	h.write("late", fmt.Sprint(now.Add(3*time.Hour).Unix()))
	h.receive(letter{id: "<one@example.com>"})
	h.poll()
	h.wantTasks()
	told := h.sentOf("notice")
	if len(told) != 1 || !strings.Contains(told[0].text, now.Add(time.Hour).UTC().Format("15:04")) || !strings.Contains(told[0].text, "fallback 1") {
		t.Errorf("notices: %+v", told)
	}
	check(t, os.Remove(filepath.Join(h.blueprint.Dir, "limit")))
	h.pollAfter(59 * time.Minute)
	h.wantTasks()
	h.pollAfter(2 * time.Minute)
	h.wantTasks(state.Success)
	if len(h.runs()) != 3 {
		t.Errorf("attempts: %q", h.runs())
	}
}

// TestOutageThatEndsATurn checks that an outage is recorded even if its turn may have no other
// attempt: the next message waits for the end of the outage.
func TestOutageThatEndsATurn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script   string
		attempts int
		notices  int
		kind     state.OutageKind
	}{
		"the last attempt": {"echo half; echo run >>argv; exit 75", 1, 0, state.Overload}, // the operator hears of an overload at its second failure
		"the turn's budget": {`init s1; say half
			echo '{"type":"rate_limit_event","rate_limit_info":{"status":"rejected"}}'
			echo '{"type":"result","is_error":true,"result":"You have hit your 5-hour limit","total_cost_usd":0.05}'; exit 1`, 3, 1, state.UsageLimit},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newClaudeFixture(t, c.script)
			if c.kind == state.Overload {
				h.agent.Turn.Runner = turn.Exec
			}
			h.agent.Policy.MaxAttempts, h.agent.Policy.Budget.Turn = c.attempts, 50_000
			h.receive(letter{id: "<one@example.com>"})
			h.receive(letter{id: "<two@example.com>"})
			h.poll()
			h.wantTasks(state.Failed)
			backend := h.agent.Policy.BackendNames()[0]
			if o := h.state().Outages[backend]; o.Kind != c.kind || len(h.runs()) != 1 || len(h.sentOf("notice")) != c.notices {
				t.Errorf("outages %+v, runs %q, notices %+v", h.state().Outages, h.runs(), h.sentOf("notice"))
			}
		})
	}
}
