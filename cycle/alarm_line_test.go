package cycle_test

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"agentstateloop/cron"
	"agentstateloop/cycle"
	"agentstateloop/cycle/hook"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// deferMessage leaves a message in the inbox that waits until at. The agent stays in IDLE.
func (h *fixture) deferMessage(at time.Time) {
	h.t.Helper()
	key, err := h.agent.Tell(h.t.Context(), "you", "what time is it?")
	check(h.t, err)
	h.changeState(func(s *state.State) {
		s.Phase = state.IDLE
		for i := range s.Inbox {
			if s.Inbox[i].Key == key {
				s.Inbox[i].Status, s.Inbox[i].NextRetryAt, s.Inbox[i].Reason = state.Deferred, at, "not before then"
			}
		}
	})
}

// alarm returns the five fields of our alarm line, or "" if there is none.
func (h *fixture) alarm() string {
	h.t.Helper()
	lines := cron.FindAlarm(mustRead(h.t, h.table), handle)
	if len(lines) > 1 {
		h.t.Fatalf("the crontab has %d alarm lines:\n%q", len(lines), lines)
	}
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(strings.Fields(lines[0])[:5], " ")
}

// wantAlarm fails unless the alarm line has these fields, and the other line is the
// idle one.
func (h *fixture) wantAlarm(want string) {
	h.t.Helper()
	if got := h.alarm(); got != want {
		h.t.Fatalf("the alarm line is %q, want %q", got, want)
	}
	if got := h.crontabFields(); got != "*/30 * * * *" {
		h.t.Fatalf("the line is %q", got)
	}
}

// ifDue polls as a crontab line does.
func (h *fixture) ifDue() cycle.Report {
	h.t.Helper()
	r, err := h.agent.Poll(h.t.Context(), cycle.PollOptions{IfDue: true})
	check(h.t, err)
	return r
}

// In IDLE a message that waits for a time has its turn in that minute. The lines of
// others stay as they are, and polls between start no crontab.
func TestAlarmLineOfDeferredMessage(t *testing.T) {
	h := newAwakeFixture(t)
	check(t, os.WriteFile(h.table, []byte(foreignLines), 0o600))
	h.changeState(func(s *state.State) { s.Schedule.Verified = time.Time{} }) // read the table
	calls := h.countCrontab()
	h.deferMessage(morning.Add(7*time.Minute + 20*time.Second))
	h.poll()
	h.wantAlarm("8 9 5 1 *")
	before := calls()
	h.pollAfter(2 * time.Minute)
	h.pollAfter(2 * time.Minute)
	if n := calls() - before; n > 0 {
		t.Errorf("steady polls made %d crontab processes", n)
	}
	status := h.status()
	sched := status.Schedule
	if sched.Alarm == nil || !sched.Alarm.Equal(morning.Add(8*time.Minute)) || *sched.AlarmReason != "inbox" ||
		*sched.AlarmWanted != "8 9 5 1 *" || *sched.AlarmInstalled != "8 9 5 1 *" {
		t.Errorf("status shows %+v", sched)
	}

	h.clock.advance(3 * time.Minute) // 09:07
	if r := h.ifDue(); r.Skipped == "" {
		t.Errorf("polled before its time: %+v", r)
	}
	h.clock.advance(time.Minute)
	if r := h.ifDue(); r.Turns != 1 {
		t.Errorf("at its minute: %+v", r)
	}
	h.wantAlarm("")
	if r := h.ifDue(); r.Skipped == "" {
		t.Errorf("a second process of that minute polled: %+v", r)
	}
	if table := string(mustRead(t, h.table)); !strings.HasPrefix(table, foreignLines) {
		t.Errorf("lines of others changed:\n%s", table)
	}
	var noted []string
	for _, l := range h.lines(state.LineSchedule) {
		if strings.HasPrefix(string(l.What), "8 9 ") || l.What == "no alarm line" {
			noted = append(noted, strings.Join(strings.Fields(string(l.What))[:3], " "))
		}
	}
	if got := strings.Join(noted, ", "); got != "8 9 5, no alarm line" {
		t.Errorf("the history has %q", got)
	}
}

// An effect that fails has the time of its next try within the same cycle. Both lines
// change in one write.
func TestAlarmLineOfEffect(t *testing.T) {
	h := newAwakeFixture(t)
	h.post(mesh.Message{ID: "m1", Text: "hello"})
	h.meshAnswers(http.MethodPost, http.StatusServiceUnavailable)
	h.poll() // 09:00: the turn, and a report that fails
	h.wantLine("*/1 * * * *", func() {})
	h.clock.advance(20 * time.Second)
	calls := h.countCrontab()
	h.order(state.IDLE, true)
	h.poll()
	h.wantAlarm("1 9 5 1 *")
	if log := string(mustRead(t, h.blueprint.Dir+"/crontab.calls")); strings.Count(log, "-\n") != 1 {
		t.Errorf("two lines took %d crontab processes:\n%s", calls(), log)
	}

	h.clock.advance(45 * time.Second) // 09:01:05: it fails again, and has another time
	if r := h.ifDue(); r.Skipped != "" || len(r.Failed) == 0 {
		t.Errorf("at its minute: %+v", r)
	}
	h.wantAlarm("4 9 5 1 *")
	h.onMesh.Store(nil)
	h.clock.advance(3 * time.Minute)
	if r := h.ifDue(); r.Posted != 1 {
		t.Errorf("when the mesh is back: %+v", r)
	}
	h.wantAlarm("")
}

// A row whose time comes while a cycle is under way is looked at by that cycle: the
// process of the alarm line has found cycle.lock taken.
func TestRowDueDuringCycleIsHandled(t *testing.T) {
	h := newAwakeFixture(t)
	h.clock.advance(4*time.Minute + 58*time.Second)
	h.deferMessage(morning.Add(5 * time.Minute))
	h.post(mesh.Message{ID: "m1", Text: "for your information", Kind: mesh.KindNotice})
	looks, late := 0, false
	watch := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/mailbox/"):
			looks++
		case r.Method == http.MethodDelete && !late: // between the commit and the end of the cycle
			late = true
			h.clock.advance(3 * time.Second)
			_, err := h.blueprint.agent(h.clock.Now).Poll(t.Context(), cycle.PollOptions{IfDue: true})
			if !errors.Is(err, cycle.ErrBusy) {
				t.Errorf("the poll of the alarm line: %v, want busy", err)
			}
		}
	})
	h.onMesh.Store(&watch)
	h.collect()
	if looks != 2 {
		t.Errorf("the cycle looked %d times, want once more after the row came due", looks)
	}
}

// An alarm line that a person edited or duplicated is repaired, and `uninstall` removes both
// lines.
func TestAlarmLineIsRepaired(t *testing.T) {
	h := newFixture(t)
	check(t, os.WriteFile(h.table, []byte(foreignLines), 0o600))
	h.agent.Policy.IdleInterval = 2 * time.Hour
	h.poll()
	h.deferMessage(morning.Add(50 * time.Minute))
	h.poll()
	if got := h.alarm(); got != "50 9 5 1 *" {
		t.Fatalf("the alarm line is %q", got)
	}
	table := string(mustRead(t, h.table))
	both := strings.Replace(table, "50 9", "51 9", 1) + strings.TrimPrefix(strings.ReplaceAll(table, "50 9", "52 9"), foreignLines)
	check(t, os.WriteFile(h.table, []byte(both), 0o600))
	h.pollAfter(31 * time.Minute)
	if got := string(mustRead(t, h.table)); got != table {
		t.Errorf("the table is\n%s\nwant\n%s", got, table)
	}
	_, _, err := h.agent.Uninstall(t.Context())
	check(t, err)
	if left := string(mustRead(t, h.table)); strings.Contains(left, handle) {
		t.Errorf("uninstall leaves\n%s", left)
	}
	h.pollAfter(time.Minute)
	if left := string(mustRead(t, h.table)); strings.Contains(left, handle) {
		t.Errorf("a poll installs\n%s", left)
	}
	_, err = h.agent.Install(t.Context())
	check(t, err)
	if got := h.alarm(); got != "50 9 5 1 *" {
		t.Errorf("after init the alarm line is %q", got)
	}
	preview, err := h.agent.Preview(t.Context())
	check(t, err)
	if preview.CrontabDiff != "" {
		t.Errorf("a dry run would edit\n%s", preview.CrontabDiff)
	}
	h.changeState(func(s *state.State) { s.Inbox[0].NextRetryAt = morning.Add(40 * time.Minute) })
	if preview, err = h.agent.Preview(t.Context()); err != nil || !strings.Contains(preview.CrontabDiff, "+40 9 5 1 *") {
		t.Errorf("a dry run would edit\n%s%v", preview.CrontabDiff, err)
	}
}

// If the machine was off at the minute of an alarm line, the next poll handles the row and
// removes the line.
func TestMissedAlarmLineIsRemoved(t *testing.T) {
	h := newAwakeFixture(t)
	h.deferMessage(morning.Add(10 * time.Minute))
	h.poll()
	h.wantAlarm("10 9 5 1 *")
	h.clock.advance(3 * time.Hour)
	if r := h.ifDue(); r.Turns != 1 {
		t.Errorf("after three hours: %+v", r)
	}
	h.wantAlarm("")
}

// In the modes without a crontab line of ours, `poll --if-due` handles a row at its minute
// without an alarm line.
func TestModesWithoutAlarmLine(t *testing.T) {
	for _, mode := range []string{cycle.ModeSystemd, cycle.ModeLaunchd, cycle.ModeFixed, cycle.ModeNone} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			h := newFixture(t)
			h.agent.Schedule.Mode = mode
			h.poll()
			h.deferMessage(morning.Add(10 * time.Minute))
			h.poll()
			status := h.status()
			if at := status.Schedule.Alarm; at == nil || !at.Equal(morning.Add(10*time.Minute)) || status.Schedule.AlarmWanted != nil {
				t.Errorf("status shows %+v", status.Schedule)
			}
			turns := 0
			for range 12 {
				h.clock.advance(time.Minute)
				if r := h.ifDue(); r.Skipped == "" {
					turns += r.Turns
					if at := h.clock.Now(); !at.Equal(morning.Add(10 * time.Minute)) {
						t.Errorf("polled at %v", at)
					}
				}
			}
			if _, err := os.Stat(h.table); turns != 1 || err == nil {
				t.Errorf("%d turns, and the table: %v", turns, err)
			}
		})
	}
}

// A poll that lingers, and a listener, look each second.
func TestLingeringPollHandlesDueRow(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.deferMessage(morning.Add(30 * time.Second))
	h.wantPollReason("before its time", "")
	h.lingerAfter(40 * time.Second)
	h.wantRuns(1)
}

// A failing hook is called again at its minute, even in IDLE, and the poll does nothing else.
func TestAlarmLineOfHook(t *testing.T) {
	t.Parallel()
	h := newEngagedFixture(t)
	got := h.addHooks(func(_ string, n int) int { return map[bool]int{true: 503, false: 200}[n == 1] }, hook.Hook{Name: "tell", On: []string{"phase"}, Timeout: time.Minute})
	h.order(state.IDLE, true)
	h.poll()
	if n := len(got("/tell")); n != 1 {
		t.Fatalf("the hook was called %d times", n)
	}
	at := h.state().HookCalls[0].NotBefore
	minute := at.Add(time.Minute - 1).Truncate(time.Minute)
	h.wantAlarm(cron.AlarmExpr(minute))
	h.clock.advance(minute.Sub(h.clock.Now()))
	if r := h.ifDue(); r.Skipped != "only hooks were due" || len(got("/tell")) != 2 {
		t.Errorf("at its minute: %+v, %q", r, got("/tell"))
	}
	h.wantAlarm("")
}

// A reminder has its alarm line before the command that planned it ends, and the line is removed
// with the reminder.
func TestAlarmLineOfReminder(t *testing.T) {
	t.Parallel()
	h := newAwakeFixture(t)
	h.agent.Policy.SelfTurns = 10
	h.remind("12m", "look at the build")
	h.wantAlarm("12 9 5 1 *")
	h.clock.advance(12 * time.Minute)
	if r := h.ifDue(); r.Turns != 1 {
		t.Errorf("at its minute: %+v", r)
	}
	h.wantAlarm("")
}
