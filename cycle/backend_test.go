package cycle_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"agentstateloop/state"
)

// TestALimitBurnsNoMessage checks that what waits for the end of a limit waits, that the
// operator is told once and when, and that one attempt is made at that time.
func TestALimitBurnsNoMessage(t *testing.T) {
	t.Parallel()
	h := claudeHouse(t, `
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
	if runs := h.runs(); len(runs) != 1 {
		t.Errorf("%d attempts before the limit has ended", len(runs))
	}
	told := h.sentOf("notice")
	if len(told) != 1 || !strings.Contains(told[0].text, until.UTC().Format("2006-01-02 15:04 MST")) || !strings.Contains(told[0].text, "5-hour limit") {
		t.Errorf("notices: %+v", told)
	}
	s := h.state()
	if alarm, ok := s.NextAlarm(h.agent.Policy, h.clock.Now()); !ok || alarm.Sub(until) > time.Minute || alarm.Before(until) {
		t.Errorf("the alarm is at %v, %v; the limit ends at %v", alarm, ok, until)
	}
	st, err := h.agent.Status()
	check(t, err)
	if len(st.Inbox.Deferrals) != 1 || st.Inbox.Deferrals[0].Count != 2 || !st.Inbox.Deferrals[0].Next.Equal(until) {
		t.Errorf("status: %+v", st.Inbox)
	}

	h.pollAfter(2 * time.Hour) // it is still reached
	if runs := h.runs(); len(runs) != 2 || len(h.sentOf("notice")) != 1 {
		t.Errorf("attempts: %q", runs)
	}
	check(t, os.Remove(filepath.Join(h.blueprint.Dir, "limit")))
	h.pollAfter(2 * time.Hour)
	h.wantTasks(state.Success, state.Success)
	if len(h.state().Outages) != 0 || h.state().FailedTurns != 0 {
		t.Errorf("%+v", h.state().Outages)
	}
}
