package state

import (
	"cmp"
	"time"
)

// Schedule is the known state of the installed crontab lines (docs/protocol.md, "The crontab").
type Schedule struct {
	Installed string    `json:"installed,omitempty"`  // the line of the interval, as last seen in the table
	AlarmLine string    `json:"alarm_line,omitempty"` // the alarm line, as last seen; "" if the table does not have one
	Alarm     time.Time `json:"alarm,omitzero"`       // the minute of AlarmLine, if we set it
	Verified  time.Time `json:"verified,omitzero"`
	Error     string    `json:"error,omitempty"`
	Binary    string    `json:"binary,omitempty"`  // the binary that the line runs, pinned at the first install
	Removed   bool      `json:"removed,omitempty"` // by `uninstall`
}

// Scheduled reports that the installed crontab lines were compared with the wanted ones. They are
// now Line, which runs Binary, and AlarmLine, which fires at Alarm. Reason, if not empty, says why
// they could not be installed; the lines are then the last known ones.
type Scheduled struct {
	Line, AlarmLine string
	Alarm           time.Time
	Binary, Reason  string
}

func (e Scheduled) apply(m *machine) {
	if m.Schedule.Removed {
		return // `uninstall` came in between
	}
	if e.Line != m.Schedule.Installed || e.Reason != m.Schedule.Error {
		m.line(Line{Kind: LineSchedule, What: e.Line, Reason: e.Reason})
	}
	if e.AlarmLine != m.Schedule.AlarmLine {
		m.line(Line{Kind: LineSchedule, What: cmp.Or(e.AlarmLine, scheduleNoAlarm), Alarm: true})
	}
	m.Schedule.Installed, m.Schedule.AlarmLine, m.Schedule.Alarm = e.Line, e.AlarmLine, e.Alarm
	m.Schedule.Error = e.Reason
	m.Schedule.Verified = m.now
	if e.Reason == "" {
		m.Schedule.Binary = e.Binary
	}
}

// Redacted implements [Redactable].
func (e Scheduled) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}

// The values of What in a schedule line, besides an installed crontab line.
const (
	scheduleRemoved = "removed"
	scheduleWanted  = "wanted again"
	scheduleNoAlarm = "no alarm line"
)

// Unscheduled reports that `uninstall` (Removed) has removed the lines. Cycles
// leave the table alone until `init` or `transition` sends it with Removed false.
type Unscheduled struct{ Removed bool }

func (e Unscheduled) apply(m *machine) {
	if m.Schedule.Removed == e.Removed {
		return
	}
	m.Schedule = Schedule{Removed: e.Removed}
	what := scheduleRemoved
	if !e.Removed {
		what = scheduleWanted
	}
	m.line(Line{Kind: LineSchedule, What: what})
}

// applyScheduleLine records whether our lines are wanted. The next cycle reads the installed lines.
func (m *machine) applyScheduleLine(l Line) {
	switch l.What {
	case scheduleRemoved:
		m.Schedule = Schedule{Removed: true}
	case scheduleWanted:
		m.Schedule = Schedule{}
	default:
		m.Schedule.Verified = time.Time{} // the lines were written after this state
	}
}
