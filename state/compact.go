package state

import "time"

// Summary replaces what was said and done up to an epoch, since the last reset.
// Its text is a payload, and every summary is in the history, too.
type Summary struct {
	At      time.Time `json:"at,omitzero"`
	File    string    `json:"file,omitempty"`
	Through uint64    `json:"through,omitempty"` // the last epoch that it covers
}

// What of the history line of a compaction. The old words of CompactionFailed are
// in the history of every agent.
const (
	compactionMade   = "made"
	CompactionFailed = "in vain" // no summary could be made
)

// Compacted reports that a summary (Text, kept durably in File) stands for all
// exchanges of attempts up to Through, and for the agent's session of that id, if
// it has one. File is empty if no summary could be made, for Reason.
type Compacted struct {
	Session    string
	Through    uint64
	File, Text string
	Reason     string
}

// apply makes the next context begin with the summary. A summary that comes too
// late changes nothing: while it was made, the memory was reset or another session
// began.
func (e Compacted) apply(m *machine) {
	if e.Session != m.Session.ID || e.Through <= m.Reset.Epoch || e.Through < m.Compacted.Through {
		m.line(Line{Kind: LineCompaction, What: "stale", Reason: e.Reason})
		return
	}
	if e.File == "" {
		if m.Session.ID != "" {
			m.Session.FailedSummaries++
		}
		m.line(Line{Kind: LineCompaction, What: CompactionFailed, Reason: e.Reason})
		return
	}
	m.Compacted = Summary{At: m.now, File: e.File, Through: e.Through}
	m.Session = Session{}
	m.line(Line{Kind: LineCompaction, What: compactionMade, Epoch: e.Through, File: e.File, Text: e.Text, Reason: e.Reason})
}

// Redacted implements [Redactable].
func (e Compacted) Redacted(redact func(string) string) Event {
	e.Text, e.Reason = redact(e.Text), redact(e.Reason)
	return e
}

func (m *machine) applyCompactionLine(l Line) {
	if l.What != compactionMade {
		return
	}
	m.Compacted = Summary{At: l.At, File: l.File, Through: l.Epoch}
	m.Session = Session{}
}
