package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Announcement is an event as hooks and `events` receive it (docs/events.md). It is made from a
// history line, so both agree. It never holds the content of a message or a secret.
type Announcement struct {
	Event  string    `json:"event"` // such as "task.failed"; see EventNames
	ID     string    `json:"id"`    // SERIAL.N of the line
	Agent  string    `json:"agent"` // handle
	At     time.Time `json:"at"`
	Serial uint64    `json:"serial"`
	Data   Details   `json:"data"`
}

// Details describe an event further. The event determines which fields are set.
type Details struct {
	Key      string `json:"key,omitempty"`    // of a message, nudge or rejected item
	Source   Source `json:"source,omitempty"` // of that item
	From     string `json:"from,omitempty"`   // the item's sender
	To       string `json:"to,omitempty"`
	Operator bool   `json:"operator,omitempty"` // the message is the operator's
	Kind     string `json:"kind,omitempty"`     // of a mesh message or an effect

	TurnID      string  `json:"turn_id,omitempty"`
	Epoch       uint64  `json:"turn_epoch,omitempty"`
	Status      Outcome `json:"status,omitempty"`
	OutputBox   string  `json:"output_box,omitempty"`
	Deliverable string  `json:"deliverable,omitempty"` // a file in the output box

	Old        Phase  `json:"old,omitempty"`
	New        Phase  `json:"new,omitempty"`
	Tier       Tier   `json:"tier,omitempty"`
	Credential string `json:"credential,omitempty"`
	Backend    string `json:"backend,omitempty"` // the backend that is out or works again; What is the kind of its outage
	Effect     string `json:"effect,omitempty"`  // the effect's id
	Gate       string `json:"gate,omitempty"`
	Count      int    `json:"count,omitempty"`
	Request    string `json:"request,omitempty"` // of an edge
	Response   string `json:"response,omitempty"`
	What       string `json:"what,omitempty"` // a closer description of the event
	Reason     string `json:"reason,omitempty"`
	Trace      string `json:"trace_id,omitempty"` // of the event's chain

	Until *time.Time `json:"until,omitempty"` // when a turn goes on without the answer, or a backend is tried again

	With []string `json:"with,omitempty"` // keys of the other messages that the turn answered
}

// The events that the code refers to.
const (
	EventBlocker     = "blocker"
	EventBlockerOver = "blocker.over"
	EventQuestion    = "question.asked" // to the operator
	EventTest        = "test"           // sent by `hook test`, not made from a line
)

// EventNames returns the names of all events. A hook may also name the part before a dot: "task"
// selects task.success, task.failed and the others.
func EventNames() []string {
	names := []string{
		EventBlocker, EventBlockerOver, "ack", "quiet", "message", "message.ended", "nudge", "halt", "go", "tier", "sent", "undelivered", "lost",
		"sending.failed", "sending.recovered", "credential.failed", "credential.recovered", "backend.out", "backend.works", "quarantine", "challenge", "control", "reset",
		"schedule", "prompt.missed", "prompt.skipped", "prompt.failed", "sleep", "spend", "credit", "memory", "compaction", "fetch", "sweep", "damage", "recovery",
		EventQuestion, "edge.enqueue", "edge.report", "edge.join", "edge.await", "edge.withdrawn", "edge.expected", "edge.lapsed",
		"turn.dispatched", "turn.started", "turn.resumed", "turn.suspended", "turn.submitted", "turn.stopped", "turn.reaped", "turn.given_back", "turn.exited",
	}
	for _, o := range []Outcome{Success, Failed, Canceled, Timeout, Partial} {
		names = append(names, "task."+string(o))
	}
	for _, p := range phases {
		names = append(names, "phase."+string(p))
	}
	slices.Sort(names)
	return names
}

// Hears reports whether the names in the configuration of a hook cover an event: by its name, by
// the part before a dot, or by "*".
func Hears(names []string, event string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		return name == event || name == "*" || strings.HasPrefix(event, name+".")
	})
}

// Announcement returns the announcement of a history line of an agent. It returns false for a line
// that only keeps books. It also returns false for lines about a hook or about the alarm line,
// which a failing hook sets: an event about these would cause the next one.
func (l Line) Announcement(agent string) (Announcement, bool) {
	event := l.event()
	if event == "" {
		return Announcement{}, false
	}
	return Announcement{
		Event: event, ID: fmt.Sprintf("%d.%d", l.Serial, l.N), Agent: agent, At: l.At, Serial: l.Serial, Data: l.details(),
	}, true
}

// event returns the name of the event that a line announces, or "".
func (l Line) event() string {
	if strings.HasPrefix(l.ID, string(HookCall)+".") {
		return ""
	}
	if l.Alarm {
		return ""
	}
	switch l.Kind {
	case LineTask:
		return "task." + string(l.Outcome)
	case LineTransition:
		return "phase." + string(l.New)
	case LineTurn:
		return l.turnEvent()
	case LineEdge:
		return "edge." + string(l.What)
	case LineCredential:
		return l.credentialEvent()
	case LineEffect:
		if l.What == WordQueued && l.Effect != nil && l.Effect.Kind == OperatorQuestion {
			return EventQuestion
		}
		if l.What == WordQueued && l.Effect != nil && (l.Effect.Kind == Ack || l.Effect.Kind == Quiet) {
			return string(l.Effect.Kind)
		}
		return ""
	}
	return l.plainEvent()
}

// turnEvent returns the event of a line about a turn, or "" for a stale write.
func (l Line) turnEvent() string {
	switch l.What {
	case WordRunning:
		return "turn.started"
	case WordDispatched:
		if l.Reason == "resumed" {
			return "turn.resumed"
		}
		return "turn.dispatched"
	case WordGivenBack:
		return "turn.given_back"
	case WordStop:
		return "turn.stopped"
	case WordSuspended, WordSubmitted, WordReaped, WordExited:
		return "turn." + string(l.What)
	}
	return ""
}

// credentialEvent returns the event of a line about a credential.
func (l Line) credentialEvent() string {
	switch l.What {
	case WordBlocker:
		return EventBlocker
	case WordBlockerOver:
		return EventBlockerOver
	}
	return "credential." + string(l.What)
}

// plainEvents maps lines to events by kind alone, or by kind and What.
var plainEvents = sync.OnceValue(func() map[LineKind]map[Word]string {
	return map[LineKind]map[Word]string{
		LineMessage:    {"": "message", WordReport: "message"},
		LineEnded:      {"": "message.ended"},
		LineNudge:      {"": "nudge"},
		LineHalt:       {WordHalt: "halt", WordGo: "go"},
		LineTier:       {"": "tier"},
		LineBackend:    {WordOut: "backend.out", WordWorks: "backend.works"},
		LineDelivery:   {WordSent: "sent", WordUndeliverable: "undelivered"},
		LineBounce:     {WordLost: "lost"},
		LineSending:    {WordFailed: "sending.failed", WordWorksAgain: "sending.recovered"},
		LineGate:       {"": "quarantine"},
		LineChallenge:  {"": "challenge"},
		LineControl:    {"": "control"},
		LineReset:      {"": "reset"},
		LineSchedule:   {"": "schedule"},
		LineSleep:      {"": "sleep"},
		LineSpend:      {"": "spend"},
		LineCredit:     {"": "credit"},
		LineMemory:     {"": "memory"},
		LineCompaction: {"": "compaction"},
		LineFetch:      {"": "fetch"},
		LineSweep:      {"": "sweep"},
		LineDamage:     {"": "damage"},
		LineRecovery:   {"": "recovery"},
		LinePrompt:     {WordMissed: "prompt.missed", WordSkipped: "prompt.skipped", WordFailed: "prompt.failed"},
	}
})

// plainEvent returns the event of a line from plainEvents, or "".
func (l Line) plainEvent() string {
	events := plainEvents()[l.Kind]
	if event, ok := events[l.What]; ok {
		return event
	}
	return events[""]
}

// details returns the details of a line's event.
func (l Line) details() Details {
	d := Details{
		Key: l.Key, Source: l.Source, From: l.From, To: l.To,
		TurnID: l.TurnID, Epoch: l.Epoch, Status: l.Outcome, OutputBox: l.OutputBox, Deliverable: l.Deliverable,
		Old: l.Old, New: l.New, Effect: l.ID, Gate: l.Gate, Count: l.Count, Request: l.Request, Response: l.Response,
		What: string(l.What), Reason: cutReason(l.Reason), Trace: l.Trace,
	}
	for _, msg := range l.Collected {
		d.With = append(d.With, msg.Key)
	}
	for _, row := range []*Message{l.Row, l.Message} {
		if row != nil && row.Key == l.Key {
			d.Source, d.From, d.Operator, d.Kind, d.Trace = row.Source, row.From, row.Operator, row.Kind, cmp.Or(d.Trace, row.Trace)
		}
	}
	switch l.Kind { // drop What where the name of the event includes it
	case LineCredential:
		d.Credential, d.From, d.What = l.From, "", ""
	case LineBackend:
		d.Backend, d.From, d.What = l.From, "", ""
		if o := l.Outage; o != nil {
			d.What, d.Until = string(o.Kind), &o.Until
		}
	case LineTier:
		d.Tier, d.What = Tier(l.What), ""
	case LineEffect:
		d.Kind, d.To, d.What = string(l.Effect.Kind), l.Effect.To, ""
		if l.Effect.Kind == OperatorQuestion {
			until := l.Effect.Expires
			d.TurnID, d.Request, d.Until = l.Effect.TurnID, l.ID, &until
		}
	case LineTask, LineTransition, LineEdge, LineHalt, LineDelivery, LineSending, LineBounce, LinePrompt:
		d.What = ""
	case LineReset:
		d.Reason = "" // the reason is text for the agent
	}
	return d
}

// maxReason bounds the reason in an announcement, in bytes.
const maxReason = 500

func cutReason(reason string) string {
	if len(reason) <= maxReason {
		return reason
	}
	return strings.ToValidUTF8(reason[:maxReason], "") + "…"
}
