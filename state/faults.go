package state

// Unreadable: a mail that failed three times alone is given up (DESIGN 7).
type Unreadable struct {
	Key string
}

// apply ends a mail that could not be fetched, three times alone: told,
// passed, never silent.
func (e Unreadable) apply(m *machine) {
	if m.seen(e.Key) {
		return
	}
	m.remember(e.Key)
	m.line(Line{Kind: LineEnded, Key: e.Key, Source: Mail, What: string(Errored), Reason: "could not be fetched three times in a row"})
	m.notice("A mail could not be fetched three times in a row and was passed over (" + e.Key + "). Read it in your mailbox; if it was for me, send it again.")
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

// Recovered: state.json could not be used and was rebuilt.
type Recovered struct{ Reason string }

// apply tells the operator, once, that the state was rebuilt. That an effect
// was about to be sent stood in the state that is lost, and nowhere else: so
// each may have been.
func (e Recovered) apply(m *machine) {
	m.line(Line{Kind: LineRecovery, Reason: e.Reason})
	for i := range m.Outbox {
		row := &m.Outbox[i]
		row.Unknown, row.Copies = true, max(1, row.Copies)
		if row.Reason == "" {
			row.Reason = "the state that knew what became of it is lost"
		}
	}
	m.notice("My state file could not be used (" + e.Reason + "). I rebuilt it from its copy and the history and go on; no accepted message was dropped.")
}

// Redacted implements [Redactable].
func (e Recovered) Redacted(redact func(string) string) Event {
	e.Reason = redact(e.Reason)
	return e
}
