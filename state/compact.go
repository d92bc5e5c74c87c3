package state

import (
	"cmp"
	"time"
)

// Summary replaces what was said and done in one conversation up to an epoch, since
// the last reset.
// Its text is a payload, and every summary is in the history, too.
type Summary struct {
	At      time.Time `json:"at,omitzero"`
	File    string    `json:"file,omitempty"`
	Through uint64    `json:"through,omitempty"` // the last epoch that it covers
	Sum     string    `json:"sha256,omitempty"`  // of the file; "" in those of older versions
}

// What of the history line of a compaction. The old words of CompactionFailed are
// in the history of every agent.
const (
	compactionMade   = "made"
	CompactionFailed = "in vain" // no summary could be made
)

// Compacted reports that a summary (Text, kept durably in File) stands for all
// exchanges of one conversation in attempts up to Through, and for the session of
// that id, if it has one. File is empty if no summary could be made, for Reason.
type Compacted struct {
	Talk       Talk
	Session    string
	Through    uint64
	File, Text string
	Reason     string
}

// apply makes the next context of the conversation begin with the summary. A summary that comes too
// late changes nothing: while it was made, the memory was reset or another session
// began.
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
	who := cmp.Or(l.With, OperatorPrincipal) // older versions kept one summary, with all in it
	m.keepConversation(Talk{who, l.Thread}, Conversation{Compacted: summaryOf(l.At, l.File, l.Text, l.Epoch)})
}
