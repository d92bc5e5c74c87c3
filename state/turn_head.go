package state

import (
	"slices"
	"time"
)

// HeadStatus is where the one active turn stands (docs/design.md, "Turns").
type HeadStatus string

// The statuses of the turn head: idle → dispatched → running ↔ suspended → idle.
const (
	HeadIdle       HeadStatus = "idle"
	HeadDispatched HeadStatus = "dispatched"
	HeadRunning    HeadStatus = "running"
	HeadSuspended  HeadStatus = "suspended"
)

var headStatuses = [...]HeadStatus{HeadIdle, HeadDispatched, HeadRunning, HeadSuspended}

// Outcome is how a turn ended.
type Outcome string

// The outcomes. Each comes with exactly one deliverable.
const (
	Success  Outcome = "success"
	Failed   Outcome = "failed"
	Canceled Outcome = "canceled"
	Timeout  Outcome = "timeout"
	Partial  Outcome = "partial"
)

// Valid reports whether o is one of the outcomes.
func (o Outcome) Valid() bool { return slices.Contains(outcomes[:], o) }

var outcomes = [...]Outcome{Success, Failed, Canceled, Timeout, Partial}

// Head is the turn head: which turn is active and who may write for it. (Epoch,
// TurnID) gates every write of a turn. The epoch rises at every process start and
// every reap, which exposes a stale owner.
type Head struct {
	Status  HeadStatus `json:"status"`
	TurnID  string     `json:"turn_id,omitempty"`
	Epoch   uint64     `json:"epoch,omitempty"`
	Key     string     `json:"key,omitempty"` // of the message
	Since   time.Time  `json:"since,omitzero"`
	Working bool       `json:"working,omitempty"` // the "still working" mail was made
	Stop    string     `json:"stop,omitempty"`    // why it is to stop: "stop", "halt"
	Pulled  bool       `json:"pulled,omitempty"`  // taken by `inbox next`: none of our processes owns it

	// Lingers is set in an idle head while the process of the last attempt, TurnID
	// and Epoch, lives on after its answer. Nothing is written for that turn any
	// more, and no turn starts before the process has ended.
	Lingers bool `json:"lingers,omitempty"`

	// Submitted is the deliverable that `submit` has set, a file of Box. A turn
	// that dies later is closed with it.
	Submitted    string `json:"submitted,omitempty"`
	SubmittedSum string `json:"submitted_sha256,omitempty"` // of that file

	// Box is the output box of the last attempt, which a resumed attempt keeps.
	// Resumed is set in such an attempt.
	Box     string `json:"box,omitempty"`
	Resumed bool   `json:"resumed,omitempty"`

	// With holds the keys of the messages of the same sender that the turn answers as
	// well, the oldest first. Key is the newest.
	With []string `json:"with,omitempty"`

	// Finish is set when the turn is to end with what it has submitted, or with its last
	// words, whatever it waits for.
	Finish bool `json:"finish,omitempty"`

	// Waiting holds the questions whose answers the turn has not been handed yet, and
	// what it started outside, until it ends. ResumeBy is the latest deadline of the open ones. Patience is that of an older
	// version, in which all of them had the deadline ResumeBy.
	Waiting  []Wait        `json:"waiting,omitempty"`
	Given    []Wait        `json:"given,omitempty"` // whose answers this attempt was handed
	ResumeBy time.Time     `json:"resume_by,omitzero"`
	Patience time.Duration `json:"patience,omitempty"`
}

// Wait is one question to another agent, or something that the turn started outside of
// it. It is answered once: by a report, or by the words "timeout" or "timeout:
// superseded".
type Wait struct {
	ID     string    `json:"tool_call_id"`
	To     string    `json:"to"`             // a handle; "tool deploy" or "submit" if Outside
	Text   string    `json:"text,omitempty"` // the beginning of the question
	Asked  time.Time `json:"asked"`
	Report string    `json:"report,omitempty"` // payload of the report
	Missed string    `json:"missed,omitempty"` // why it is missing

	// By is when the question is answered by "timeout", if the turn is suspended then.
	// It is at most Span ahead.
	By   time.Time     `json:"by,omitzero"`
	Span time.Duration `json:"span,omitempty"`

	// Outside is set if a program or a person is to report, by the id alone, or one of
	// Peers. Words is a file in the attempt's folder, with what the turn had said. Handed
	// is set once an attempt was given the answer.
	Outside  bool     `json:"outside,omitempty"`
	Peers    []string `json:"peers,omitempty"`
	Words    string   `json:"words,omitempty"`
	WordsSum string   `json:"words_sha256,omitempty"`
	Handed   bool     `json:"handed,omitempty"`

	// Operator is set if the operator is asked, by mail: To is the address, and Options are
	// the answers that the question offers. Told is set once they were told that a message
	// of theirs waits behind it.
	Operator bool     `json:"operator,omitempty"`
	Options  []string `json:"options,omitempty"`
	Told     bool     `json:"told,omitempty"`

	// Permit identifies the call of a tool that the operator is asked to permit; "" if they
	// are asked something else. Used is set once it was permitted.
	Permit string `json:"permit,omitempty"`
	Used   bool   `json:"used,omitempty"`

	// Sum is the SHA-256 of the report's payload, in hexadecimal.
	Sum string `json:"sha256,omitempty"`

	// Status is how the other agent's turn ended, as its report says; Timeout if the
	// report is missing, and "" if an older agent reported.
	Status Outcome `json:"status,omitempty"`
}

// Answered reports whether the question is closed.
func (w Wait) Answered() bool { return w.Report != "" || w.Missed != "" }

// asksPermission reports whether the operator has not yet said whether a tool may be called.
func (w Wait) asksPermission() bool { return w.Permit != "" && !w.Answered() }

// AsksPermission reports whether the turn waits for a permission.
func (h Head) AsksPermission() bool {
	return slices.ContainsFunc(h.Waiting, Wait.asksPermission)
}

// stays reports whether the turn keeps what it waits for until it ends, through all its
// attempts: nobody is to be asked twice, and nothing is to be started twice.
func (w Wait) stays() bool { return w.Outside || w.Operator }

// hand notes that an attempt has been given all answers that there are.
func (h *Head) hand() {
	h.Given = nil
	for _, w := range h.Waiting {
		if w.Answered() && !w.Handed {
			h.Given = append(h.Given, w)
		}
	}
	h.Waiting = slices.DeleteFunc(h.Waiting, func(w Wait) bool { return w.Answered() && !w.stays() })
	for i, w := range h.Waiting {
		h.Waiting[i].Handed = w.Answered()
	}
}

// takeBack undoes hand, for an attempt that could do nothing with the answers.
func (h *Head) takeBack() {
	given := h.Given
	h.Given = nil
	for i, w := range h.Waiting {
		if again := slices.IndexFunc(given, func(g Wait) bool { return g.ID == w.ID }); again >= 0 {
			h.Waiting[i].Handed = false
			given = slices.Delete(slices.Clone(given), again, again+1)
		}
	}
	h.Waiting = slices.Concat(given, h.Waiting)
}

// Waits reports whether the turn has something to wait for, or an answer that it was
// not handed yet.
func (h Head) Waits() bool {
	return slices.ContainsFunc(h.Waiting, func(w Wait) bool { return !w.Handed })
}

// ready reports whether a suspended turn has no open question.
func (h Head) ready() bool { return h.Status == HeadSuspended && !h.open() }

// open reports whether a suspended turn has an open question.
func (h Head) open() bool {
	return h.Status == HeadSuspended && slices.ContainsFunc(h.Waiting, func(w Wait) bool { return !w.Answered() })
}

// NextDeadline returns when the next open question of a suspended turn is answered by
// "timeout". ok is false if none is open.
func (h Head) NextDeadline() (at time.Time, ok bool) {
	if h.Status != HeadSuspended {
		return time.Time{}, false
	}
	for _, w := range h.Waiting {
		if !w.Answered() && (!ok || w.By.Before(at)) {
			at, ok = w.By, true
		}
	}
	return at, ok
}

// lastDeadline returns the latest deadline of the open questions, or the zero time.
func (h Head) lastDeadline() (at time.Time) {
	for _, w := range h.Waiting {
		if !w.Answered() {
			at = latest(at, w.By)
		}
	}
	return at
}

// Owns reports whether (turnID, epoch) may still write for the turn.
func (h Head) Owns(turnID string, epoch uint64) bool {
	return h.Status != HeadIdle && h.TurnID == turnID && h.Epoch == epoch
}

// applyHead sets the turn head, and the row of its message, to what a step left. The
// last line of that step holds both.
func (m *machine) applyHead(l Line) {
	if l.Head == nil {
		return
	}
	m.Turn = *l.Head
	m.Epoch = max(m.Epoch, l.Head.Epoch)
	if l.Row == nil {
		return
	}
	m.Epoch = max(m.Epoch, l.Row.Epoch)
	if row := m.message(l.Row.Key); row != nil {
		*row = *l.Row
		m.followLead(*row)
	}
}
