package state

import "time"

// Schedule is what is known of the installed crontab line (DESIGN 9).
type Schedule struct {
	Installed string    `json:"installed,omitempty"` // last verified
	Verified  time.Time `json:"verified,omitzero"`
	Error     string    `json:"error,omitempty"`
	Binary    string    `json:"binary,omitempty"`  // pinned at first install
	Removed   bool      `json:"removed,omitempty"` // by uninstall
}

// Scheduled: the installed crontab line was compared with the wanted one, and
// is now Line, which runs Binary; Reason says why it could not be, and Line
// what is known then.
type Scheduled struct{ Line, Binary, Reason string }

func (e Scheduled) apply(m *machine) {
	if m.Schedule.Removed {
		return // `uninstall` came in between, and has the last word
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

// What a schedule line tells beside an installed crontab line.
const (
	scheduleRemoved = "removed"
	scheduleWanted  = "wanted again"
)

// Unscheduled: `uninstall` (Removed) took the line away; cycles leave the
// table alone until `init` or `transition` sends it with Removed false.
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
