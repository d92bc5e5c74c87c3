package simulator

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// These checks hold the rules for rows with a time (docs/design.md, "The alarm line").

// timedRows is what an outsider reads of the rows with a time in state.json.
type timedRows struct {
	Inbox []struct {
		Key, Status, Reason string
		TurnID              string    `json:"turn_id"`
		NextRetryAt         time.Time `json:"next_retry_at"`
		Operator, Damaged   bool
	}
	Outbox []struct {
		ID, Kind, Channel, To string
		NotBefore             time.Time `json:"not_before"`
		Unknown               bool
		Copies                int
	}
	HookCalls []struct {
		ID, To    string
		NotBefore time.Time `json:"not_before"`
	} `json:"hook_calls"`
	Turn struct {
		Status  string
		Waiting []struct {
			ID, Report, Missed string
			By                 time.Time
		}
	}
	AckWaits struct {
		Until time.Time
	} `json:"ack_waits"`
	Credentials map[string]any
	Cooldown    time.Time `json:"cooldown_until"`
}

// next returns the earliest time after now at which a row is to be looked at, and which
// row. It takes no account of what HALT, the tier or a credential holds back.
func (s timedRows) next(now time.Time) (at time.Time, what string) {
	take := func(t time.Time, row string) {
		if t.After(now) && (what == "" || t.Before(at)) {
			at, what = t, row
		}
	}
	take(s.AckWaits.Until, "the ack")
	lanes := map[string]bool{}
	for _, e := range s.Outbox {
		if e.Copies >= 5 || e.Unknown && (e.Kind == "ack" || e.Kind == "quiet" || e.Kind == "working") {
			continue
		}
		if lane := e.Channel + " " + e.To; !lanes[lane] {
			lanes[lane] = true
			take(e.NotBefore, e.ID)
		}
	}
	for _, e := range s.HookCalls {
		if lane := "hook " + e.To; !lanes[lane] {
			lanes[lane] = true
			take(e.NotBefore, e.ID)
		}
	}
	switch s.Turn.Status {
	case "idle":
		for _, m := range s.Inbox {
			if m.Status == "deferred" && !m.Damaged && m.NextRetryAt.After(s.Cooldown) {
				take(m.NextRetryAt, m.Key)
			}
		}
	case "suspended":
		for _, w := range s.Turn.Waiting {
			if w.Report == "" && w.Missed == "" {
				take(w.By, "the suspended turn")
			}
		}
	}
	return at, what
}

// rested records that the last process was a poll that nothing disturbed. So the
// crontab is as that poll left it, and the rows with a time are known.
func (w *World) rested(yes bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.restful = yes
}

// nextTimed returns when a line of ours must fire for a row, if that is known.
func (w *World) nextTimed() (by time.Time, what string) {
	w.mu.Lock()
	restful := w.restful
	w.mu.Unlock()
	if !restful || !w.wellFormed() {
		return time.Time{}, ""
	}
	var s timedRows
	data, err := os.ReadFile(filepath.Join(w.stateDir(), "state.json"))
	if err != nil || json.Unmarshal(data, &s) != nil || len(s.Credentials) > 0 {
		return time.Time{}, ""
	}
	at, what := s.next(w.clock.machine())
	if what == "" {
		return time.Time{}, ""
	}
	status, err := w.status()
	w.rested(true) // that process read only
	if err != nil || status.Halted || status.Tier != "normal" || status.Schedule.Error != nil {
		return time.Time{}, ""
	}
	return at.Add(time.Minute - 1).Truncate(time.Minute), what
}

// wellFormed reports whether our lines in the table are as we write them.
func (w *World) wellFormed() bool {
	ours, _, err := w.crontab.read()
	intervals := 0
	for _, line := range ours {
		if !isAlarm(line) {
			intervals++
			if !strings.HasPrefix(line, "*/30 ") && !strings.HasPrefix(line, "*/1 ") {
				return false
			}
		}
	}
	return err == nil && intervals == 1
}

// checkTimed checks that cron has fired for the row whose time was up, a minute later at
// most.
func (w *World) checkTimed(by time.Time, what string, now time.Time) {
	if what == "" || !now.After(by.Add(time.Minute)) {
		return
	}
	ours, _, _ := w.crontab.read()
	w.violate("alarm", "%s was to be looked at by %s, and cron has not polled: %q", what, by.Format("15:04"), ours)
}

// checkLines checks, after a poll that nothing disturbed, that at most two lines are
// ours, and that they do not fire in the same minute.
func (w *World) checkLines() {
	ours, _, err := w.crontab.read()
	alarms := slices.DeleteFunc(slices.Clone(ours), func(line string) bool { return !isAlarm(line) })
	if err != nil || !w.wellFormed() {
		return
	}
	if len(alarms) > 1 {
		w.violate("alarm", "the crontab has %d alarm lines: %q", len(alarms), ours)
	}
	if len(alarms) != 1 {
		return
	}
	w.count.happened("an alarm line was set")
	var minute int
	if _, err := fmt.Sscanf(alarms[0], "%d ", &minute); err != nil || minute%30 == 0 || !strings.HasPrefix(other(ours), "*/30 ") {
		w.violate("alarm", "the alarm line is needless: %q", ours)
	}
}

// other returns the line of the interval.
func other(ours []string) string {
	for _, line := range ours {
		if !isAlarm(line) {
			return line
		}
	}
	return ""
}

// isAlarm reports whether a line of ours is the alarm line.
func isAlarm(line string) bool { return strings.HasSuffix(line, " alarm") }

// alarmFires reports whether an alarm line fires at this minute.
func alarmFires(line string, at time.Time) bool {
	var minute, day, month int
	var hour string
	if _, err := fmt.Sscanf(line, "%d %s %d %d *", &minute, &hour, &day, &month); err != nil {
		return false
	}
	return at.Minute() == minute && at.Day() == day && int(at.Month()) == month && (hour == "*" || hour == fmt.Sprint(at.Hour()))
}
