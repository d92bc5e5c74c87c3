package state

import "time"

// Schedule holds what is known of the installed crontab line (docs/design.md, "The
// crontab").
type Schedule struct {
	Installed string    `json:"installed,omitempty"` // as last seen in the table
	Verified  time.Time `json:"verified,omitzero"`
	Error     string    `json:"error,omitempty"`
	Binary    string    `json:"binary,omitempty"`  // that the line runs, pinned at the first install
	Removed   bool      `json:"removed,omitempty"` // by `uninstall`
}

// Scheduled reports that the installed crontab line was compared with the wanted
// one and is now Line, which runs Binary. Reason, if not empty, says why it could
// not be installed; Line is then what is known of it.
type Scheduled struct{ Line, Binary, Reason string }

func (e Scheduled) apply(m *machine) {
	if m.Schedule.Removed {
		return // `uninstall` came in between
	}
	if e.Line != m.Schedule.Installed || e.Reason != m.Schedule.Error {
		m.line(Line{Kind: LineSchedule, What: e.Line, Reason: e.Reason})
	}
	m.Schedule.Installed = e.Line
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

// What a schedule line records instead of an installed crontab line.
const (
	scheduleRemoved = "removed"
	scheduleWanted  = "wanted again"
)

// Unscheduled reports that `uninstall` (Removed) has removed the line. Cycles
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

// applyScheduleLine records whether our line is wanted. The next cycle looks up what
// is installed.
func (m *machine) applyScheduleLine(l Line) {
	switch l.What {
	case scheduleRemoved:
		m.Schedule = Schedule{Removed: true}
	case scheduleWanted:
		m.Schedule = Schedule{}
	}
}
