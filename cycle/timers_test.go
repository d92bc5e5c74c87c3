package cycle_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentstateloop/cron"
	"agentstateloop/cron/timer"
	"agentstateloop/cycle"
	"agentstateloop/internal/capture"
	"agentstateloop/internal/testkit"
	"agentstateloop/internal/testkit/timertest"
	"agentstateloop/state"
)

// newTimerFixture is newAwakeFixture with a service manager. Each write of the crontab calls onWrite
// before it.
func newTimerFixture(t *testing.T, onWrite func()) (*fixture, timertest.Manager) {
	h := newAwakeFixture(t)
	m, err := timertest.New(t.TempDir(), t.TempDir())
	check(t, err)
	t.Setenv("PATH", m.Bin()+":/usr/bin:/bin")
	h.agent.Schedule.Home = m.Home
	run := h.agent.Schedule.Table.Run
	h.agent.Schedule.Table.Run = func(ctx context.Context, cmd *exec.Cmd, limits capture.Limits) (capture.Printed, error) {
		if cmd.Args[1] != "-l" {
			onWrite()
		}
		return run(ctx, cmd, limits)
	}
	return h, m
}

// line returns whether the crontab has a line of the agent.
func (h *fixture) line() bool {
	text, _ := os.ReadFile(h.table)
	return len(cron.Find(text, handle)) > 0
}

func polls(t *testing.T, m timertest.Manager) bool {
	t.Helper()
	names, err := m.Active()
	check(t, err)
	return slices.Contains(names, "agentstateloop-"+handle+".timer")
}

func (h *fixture) install(mode string) state.State {
	h.t.Helper()
	h.agent.Schedule.Mode = mode
	s, err := h.agent.Install(h.t.Context())
	check(h.t, err)
	return s
}

// TestSwitchToTimer checks that the timer polls before the crontab line goes, and the other way
// round.
func TestSwitchToTimer(t *testing.T) {
	var h *fixture
	var m timertest.Manager
	writes := 0
	h, m = newTimerFixture(t, func() {
		writes++
		if !polls(t, m) {
			t.Errorf("write %d of the crontab: no timer polls", writes)
		}
	})
	check(t, os.WriteFile(h.table, append([]byte(foreignLines), mustRead(t, h.table)...), 0o600))
	if s := h.install(cycle.ModeSystemd); s.Schedule.Error != "" || s.Schedule.Installed != "agentstateloop-"+handle+".timer" {
		t.Errorf("schedule: %+v", s.Schedule)
	}
	if h.line() || !polls(t, m) || writes != 1 || string(mustRead(t, h.table)) != foreignLines {
		t.Errorf("with the timer: line %v, timer %v, %d writes", h.line(), polls(t, m), writes)
	}
	calls, err := m.Calls()
	check(t, err)
	h.receive(letter{id: "<one@example.com>"})
	h.pollAfter(time.Minute)
	h.pollAfter(31 * time.Minute)
	if now, err := m.Calls(); err != nil || len(now) != 1 || writes != 1 {
		t.Errorf("polls called %q after %q, and wrote the crontab %d times; %v", now, calls, writes, err)
	}
	if s := h.install(cycle.ModeCrontab); s.Schedule.Error != "" {
		t.Errorf("schedule: %+v", s.Schedule)
	}
	if !h.line() || polls(t, m) || writes != 2 {
		t.Errorf("with the line: line %v, timer %v, %d writes", h.line(), polls(t, m), writes)
	}
}

// TestSwitchThatFails checks that the agent is still polled by what polled it before.
func TestSwitchThatFails(t *testing.T) {
	h, m := newTimerFixture(t, func() {})
	for _, fault := range []string{timertest.NoBus, timertest.Deny} {
		check(t, m.Fail(fault))
		if s := h.install(cycle.ModeSystemd); s.Schedule.Error == "" || !h.line() {
			t.Errorf("%s: line %v, schedule %+v", fault, h.line(), s.Schedule)
		}
		if status, err := h.agent.View().Status(); err != nil || status.Schedule.Error == nil {
			t.Errorf("%s: status %+v, %v", fault, status.Schedule, err)
		}
	}
	check(t, m.Fail(""))
	if s := h.install(cycle.ModeSystemd); s.Schedule.Error != "" || h.line() {
		t.Fatalf("line %v, schedule %+v", h.line(), s.Schedule)
	}

	h.agent.Schedule.Table.Command = "/bin/false"
	if s := h.install(cycle.ModeCrontab); s.Schedule.Error == "" || !polls(t, m) {
		t.Errorf("without a crontab: timer %v, schedule %+v", polls(t, m), s.Schedule)
	}
}

// TestUninstallTimer checks that uninstall removes the timer, that polls leave it away, and that it
// also works for a mode whose units are left over.
func TestUninstallTimer(t *testing.T) {
	for _, mode := range []string{cycle.ModeSystemd, cycle.ModeCrontab, cycle.ModeNone} {
		h, m := newTimerFixture(t, func() {})
		h.install(cycle.ModeSystemd)
		h.agent.Schedule.Mode = mode
		_, units, err := h.agent.Uninstall(t.Context())
		if err != nil || len(units) != 3 || polls(t, m) {
			t.Errorf("%s: removed %q, %v", mode, units, err)
		}
		h.pollAfter(time.Hour)
		s, err := h.agent.Reinstall(t.Context())
		check(t, err)
		if !s.Schedule.Removed || polls(t, m) || h.line() {
			t.Errorf("%s: after a poll: %+v", mode, s.Schedule)
		}
	}
}

// TestTimerBinaryIsPinned is TestCrontabBinaryIsPinned for a timer.
func TestTimerBinaryIsPinned(t *testing.T) {
	h, _ := newTimerFixture(t, func() {})
	h.agent.Schedule.Binary = "/bin/sh"
	h.install(cycle.ModeSystemd)
	h.agent.Schedule.Binary = "/bin/cat"
	h.install(cycle.ModeSystemd)
	if got := h.agent.Timer(h.state()).Binary; got != "/bin/sh" {
		t.Errorf("the binary is %s", got)
	}
}

// TestPollDetached checks when a poll that detaches starts another process, and with which
// arguments.
func TestPollDetached(t *testing.T) {
	h, _ := newTimerFixture(t, func() {})
	h.agent.Schedule.Mode, h.agent.Schedule.Linger = timer.Systemd, 50*time.Second
	dir := t.TempDir()
	program, seen := filepath.Join(dir, "program"), filepath.Join(dir, "seen")
	check(t, testkit.WriteProgram(program, "#!/bin/sh\necho \"$*\" >'"+seen+".new'\nmv '"+seen+".new' '"+seen+"'\n"))
	h.agent.Self = []string{program}
	detach := func(o cycle.PollOptions, linger time.Duration, want string) {
		t.Helper()
		_ = os.Remove(seen)
		r, err := h.agent.PollDetached(o, linger)
		check(t, err)
		got := ""
		for end := time.Now().Add(5 * time.Second); want != "" && got == "" && time.Now().Before(end); time.Sleep(5 * time.Millisecond) { // the started process writes it
			text, _ := os.ReadFile(seen)
			got = strings.TrimSpace(string(text))
		}
		if got != want || r.Skipped == "" {
			t.Errorf("%+v, %v: started %q, want %q; report %+v", o, linger, got, want, r)
		}
	}
	detach(cycle.PollOptions{IfDue: true}, 0, "")
	detach(cycle.PollOptions{NoTurn: true}, 0, "poll --quiet --no-turn")
	detach(cycle.PollOptions{}, 20*time.Second, "poll --quiet --linger 20s")
	h.clock.advance(31 * time.Minute)
	detach(cycle.PollOptions{IfDue: true}, 0, "poll --quiet --if-due")
	check(t, h.agent.Ring("test", ""))
	detach(cycle.PollOptions{IfDue: true}, 0, "poll --quiet --if-due")
	h.poll()
	h.clock.advance(time.Minute)
	detach(cycle.PollOptions{IfDue: true}, 0, "poll --quiet --if-due --linger 50s")
	h.agent.Schedule.Mode = cycle.ModeFixed
	detach(cycle.PollOptions{IfDue: true}, 0, "poll --quiet --if-due")
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 2 {
		t.Errorf("%v, %v", entries, err)
	}
}
