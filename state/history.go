package state

import (
	"cmp"
	"slices"
	"time"
)

// LineKind names what a history line records.
type LineKind string

// The kinds of history lines (docs/protocol.md, "The history and the state").
const (
	LineMessage    LineKind = "message"    // accepted into the inbox; holds the row
	LineDuplicate  LineKind = "duplicate"  // seen before; nothing changed
	LineGate       LineKind = "gate"       // rejected, kept in quarantine
	LineQuarantine LineKind = "quarantine" // an item left it: released, dropped
	LineChallenge  LineKind = "challenge"  // made, answered, expired; Digest is the hash of its token
	LineNudge      LineKind = "nudge"      // from a file or the mesh
	LineNote       LineKind = "note"       // acknowledged without further work
	LineTransition LineKind = "transition" // of the phase
	LineTurn       LineKind = "turn"       // dispatched, running, reaped, stale
	LineTask       LineKind = "task"       // the one ending of a turn
	LineEnded      LineKind = "ended"      // a message left the inbox, but not by the end of a turn
	LineEffect     LineKind = "effect"     // queued; holds the row
	LineDelivery   LineKind = "delivery"   // sent, unknown, expired, undeliverable
	LineCredential LineKind = "credential" // failed, recovered
	LineBackend    LineKind = "backend"    // out, works
	LineHalt       LineKind = "halt"       // HALT and GO
	LineControl    LineKind = "control"    // STOP, HALT, GO, STATUS by mail; stop by hand
	LineReset      LineKind = "reset"      // the agent's memory begins after it
	LineMemory     LineKind = "memory"     // the agent changed its working memory; holds the text
	LineCompaction LineKind = "compaction" // a summary replaces the exchanges up to an epoch; holds the text
	LineSleep      LineKind = "sleep"      // the agent fell asleep, or asked to
	LineEdge       LineKind = "edge"       // a question or its report: enqueue, report, join
	LineSchedule   LineKind = "schedule"   // the crontab line changed
	LineRecovery   LineKind = "recovery"   // state.json was rebuilt
	LineSpend      LineKind = "spend"      // the cost of a turn
	LineCredit     LineKind = "credit"     // opened, topped up
	LineTier       LineKind = "tier"       // the agent's tier changed
	LineFetch      LineKind = "fetch"      // a mail cannot be fetched: failing, still failing, ended
	LineSweep      LineKind = "sweep"      // a sweep found a missed mail
	LineDamage     LineKind = "damage"     // a payload is damaged, was fetched again, or was not found
	LineBounce     LineKind = "bounce"     // a mail of ours came back, or is delayed; the operator was told
	LineNumber     LineKind = "number"     // the number of a mail that is not fetched yet
	LineAck        LineKind = "ack"        // an ack waits for its answer, or is not needed
	LinePrompt     LineKind = "prompt"     // a prompt by the clock: its next time, or why it was not made; holds its row
)

// The kinds of lines about mail that cannot leave.
const (
	LineGivenUp LineKind = "undelivered" // a row that was given up is removed: retried, dropped, forgotten
	LineSending LineKind = "sending"     // no mail can be sent, or sending works again
)

// Line is one line of history-YYYY-MM.jsonl, where its sum follows it (docs/protocol.md, "The audit
// chain"). (Serial, N) is unique and rises. Lines stay in state.json under their serial until they
// are durable in the history, so that the two never disagree (docs/protocol.md, "The history and the
// state"). Every version that knows the fields of a line must encode the line to the same bytes:
// new fields go to the end, and are omitted when they are empty.
type Line struct {
	Serial uint64    `json:"serial"`
	N      int       `json:"n"`
	Last   bool      `json:"last,omitempty"` // the last line of the serial's step
	At     time.Time `json:"at"`
	Kind   LineKind  `json:"kind"`

	Key    string `json:"key,omitempty"`    // message or nudge
	Source Source `json:"source,omitempty"` // of the message or nudge
	From   string `json:"from,omitempty"`   // sender
	To     string `json:"to,omitempty"`     // of an edge: the recipient of the question or report
	Gate   string `json:"gate,omitempty"`
	Count  int    `json:"count,omitempty"`  // of a gate line without a key: the number of items
	What   Word   `json:"what,omitempty"`   // "sent", "reaped", "failed", ...
	Reason string `json:"reason,omitempty"` // in words
	Old    Phase  `json:"old,omitempty"`
	New    Phase  `json:"new,omitempty"`

	TurnID      string  `json:"turn_id,omitempty"`
	Epoch       uint64  `json:"turn_epoch,omitempty"`
	Outcome     Outcome `json:"status,omitempty"`
	OutputBox   string  `json:"output_box,omitempty"`
	Deliverable string  `json:"deliverable,omitempty"`

	// For an edge. Both agents record it under the same ids: Request is the correlation id of the
	// question. Response is the mesh id of its report, or the word that replaces a missing report.
	Request  string `json:"request,omitempty"`
	Response string `json:"response,omitempty"`

	Text string    `json:"text,omitempty"` // of a working memory or a summary
	With Principal `json:"with,omitempty"` // whose memory or summary it is; older lines are the operator's
	File string    `json:"file,omitempty"` // of a summary

	Thread string `json:"thread,omitempty"` // of a summary: the mail thread

	ID      string   `json:"id,omitempty"` // of an effect
	Message *Message `json:"message,omitempty"`

	// Head and Row are the turn head and the row of its message after the step, on the last line of
	// a step that changed the head. A task line has the row from before the step.
	Head   *Head    `json:"head,omitempty"`
	Row    *Message `json:"row,omitempty"`
	Digest string   `json:"digest,omitempty"` // of a restore: the place of the state
	Effect *Effect  `json:"effect,omitempty"`

	// For a spending: the local day that was charged, and the agent's meter after it. For a credit:
	// its amount.
	Spending *Spending `json:"spending,omitempty"`
	Day      string    `json:"day,omitempty"`
	Meter    *Meter    `json:"meter,omitempty"`
	Amount   Micros    `json:"micros,omitempty"`

	// Trace is the id of the line's chain. Fields is the file with a task's results, in its output
	// box.
	Trace  string `json:"trace_id,omitempty"`
	Fields string `json:"fields,omitempty"`

	// Collected are the other messages that a task answered.
	Collected []Message `json:"collected,omitempty"`

	Expected *Expected `json:"expected,omitempty"` // of an edge: a report that may still come

	Alarm bool `json:"alarm,omitempty"` // of a schedule line: it is about the alarm line

	// Number is the short number of an item in quarantine (a gate line), of a mail that is not
	// fetched yet, or of a mail that came back.
	Number uint64 `json:"number,omitempty"`

	Ack *WaitingAck `json:"ack,omitempty"` // the waiting ack

	Prompt *TimedPrompt `json:"prompt,omitempty"` // the row after the step

	Sent time.Time `json:"sent,omitzero"` // of an answer to a question by mail: when it was sent; of a restore: when its backup was made

	Outage *Outage `json:"outage,omitempty"` // of a backend that is out
}

// After reports whether the line comes after position (serial, n).
func (l Line) After(serial uint64, n int) bool {
	return l.Serial > serial || l.Serial == serial && l.N > n
}

// NameFile puts the file with the bytes of an effect, and their sum, into the line that queued the
// effect. Call it between Step and the commit of its result.
func (s State) NameFile(id, file, sum string) {
	for _, l := range s.Lines {
		if l.Kind == LineEffect && l.ID == id && l.Effect != nil {
			l.Effect.File, l.Effect.Sum = file, sum
		}
	}
}

// A chain is a message from outside and its consequences at all agents: turns, questions, reports,
// mails. All of them have its id (docs/protocol.md, "The contract between agents").

// mintTrace returns the id of the chain that begins with the item under key. The id is the same
// each time the item is taken in. Only somebody who knows the seed can make it.
func (m *machine) mintTrace(key string) string {
	return "trace." + hashHex(m.Seed + "|trace|" + key)[:20]
}

// turnTrace returns the id of the turn's chain, or "".
func (m *machine) turnTrace() string {
	msg, ok := m.TurnMessage()
	if !ok {
		return ""
	}
	return cmp.Or(msg.Trace, m.mintTrace(msg.Key)) // an older version accepted the message without an id
}

// traceOf returns the id of a line's chain: the chain of its turn, of its message, or of the event
// that is applied now.
func (m *machine) traceOf(l Line) string {
	trace := l.Trace
	if l.TurnID != "" && l.TurnID == m.Turn.TurnID {
		trace = cmp.Or(trace, m.turnTrace())
	}
	if row := m.message(l.Key); row != nil {
		trace = cmp.Or(trace, row.Trace)
	}
	return cmp.Or(trace, m.trace)
}

// IsOf reports whether the line belongs to the chain, or is the task of a turn that also answered a
// message of the chain.
func (l Line) IsOf(chain string) bool {
	return l.Trace == chain || slices.ContainsFunc(l.Collected, func(msg Message) bool { return msg.Trace == chain })
}

// enqueued records the sender of a message or a nudge that came in.
func (m *machine) enqueued(msg Message) {
	m.line(Line{Kind: LineEdge, What: WordEnqueue, Source: msg.Source, From: msg.From, To: m.Agent, Request: msg.request(), Key: msg.Key})
}

// request returns the id by which both ends of an edge know a message: the id that a report on it
// repeats, or its key if it did not come from another agent.
func (msg Message) request() string {
	if msg.Source == Mesh {
		return msg.Correlation
	}
	return msg.Key
}
