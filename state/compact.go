package state

import (
	"cmp"
	"time"
)

// Summary replaces the exchanges of one conversation since the last reset, up to an epoch. Its text
// is a payload. The history has every summary too.
type Summary struct {
	At      time.Time `json:"at,omitzero"`
	File    string    `json:"file,omitempty"`
	Through uint64    `json:"through,omitempty"` // the last epoch it covers
	Sum     string    `json:"sha256,omitempty"`  // of the file; "" in summaries of older versions
}

// The values of What in a compaction line. The history of every agent has the old words of
// CompactionFailed.
const (
	compactionMade   = "made"
	CompactionFailed = "in vain" // the summary failed
)

// Compacted reports that a summary (Text, kept durably in File) replaces all exchanges of one
// conversation in attempts up to Through, and the session with that id, if it has one. File is
// empty if the summary failed, for Reason.
type Compacted struct {
	Talk       Talk
	Session    string
	Through    uint64
	File, Text string
	Reason     string
}

// apply makes the next context of the conversation begin with the summary. It ignores a summary
// that comes too late, because the memory was reset or another session began while it was made.
func (e Compacted) apply(m *machine) {
	c := m.ConversationOf(e.Talk)
	if e.Session != c.Session.ID || e.Through <= m.Reset.Epoch || e.Through < c.Compacted.Through {
		m.line(Line{Kind: LineCompaction, With: e.Talk.With, Thread: e.Talk.Thread, What: "stale", Reason: e.Reason})
		return
	}
	if e.File == "" {
		if c.Session.ID != "" {
			c.Session.FailedSummaries++
			m.keepConversation(e.Talk, c)
		}
		m.line(Line{Kind: LineCompaction, With: e.Talk.With, Thread: e.Talk.Thread, What: CompactionFailed, Reason: e.Reason})
		return
	}
	m.keepConversation(e.Talk, Conversation{Compacted: summaryOf(m.now, e.File, e.Text, e.Through)})
	m.line(Line{Kind: LineCompaction, With: e.Talk.With, Thread: e.Talk.Thread, What: compactionMade, Epoch: e.Through, File: e.File, Text: e.Text, Reason: e.Reason})
}

// Redacted implements [Redactable].
func (e Compacted) Redacted(redact func(string) string) Event {
	e.Text, e.Reason = redact(e.Text), redact(e.Reason)
	return e
}

// summaryOf returns the summary whose file has this text and a newline.
func summaryOf(at time.Time, file, text string, through uint64) Summary {
	return Summary{At: at, File: file, Through: through, Sum: hashHex(text + "\n")}
}

func (m *machine) applyCompactionLine(l Line) {
	if l.What != compactionMade {
		return
	}
	who := cmp.Or(l.With, OperatorPrincipal) // older versions kept one summary of everything
	m.keepConversation(Talk{who, l.Thread}, Conversation{Compacted: summaryOf(l.At, l.File, l.Text, l.Epoch)})
}
