package state

import (
	"slices"
	"time"
)

// HeadStatus is where the one active turn stands (DESIGN 6).
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

// The outcomes. Every one comes with exactly one deliverable.
const (
	Success  Outcome = "success"
	Failed   Outcome = "failed"
	Canceled Outcome = "canceled"
	Timeout  Outcome = "timeout"
	Partial  Outcome = "partial"
)

// Head is the turn head: which turn is active and who may write for it.
// (Epoch, TurnID) gates every write of a turn; the epoch rises at every
// process start and every reap, so that a stale owner can be told apart.
type Head struct {
	Status  HeadStatus `json:"status"`
	TurnID  string     `json:"turn_id,omitempty"`
	Epoch   uint64     `json:"epoch,omitempty"`
	Key     string     `json:"key,omitempty"` // of the message
	Since   time.Time  `json:"since,omitzero"`
	Working bool       `json:"working,omitempty"` // the "still working" mail was made
	Stop    string     `json:"stop,omitempty"`    // why it is to stop: "stop", "halt"
	Pulled  bool       `json:"pulled,omitempty"`  // taken by `inbox next`: no process of ours owns it

	// Submitted is the deliverable that `submit` has set: a file of Box. A
	// turn that dies after it is closed with it.
	Submitted string `json:"submitted,omitempty"`

	// Box is the output box of the last attempt, which a resume carries on
	// with. Resumed tells such an attempt from a fresh one.
	Box     string `json:"box,omitempty"`
	Resumed bool   `json:"resumed,omitempty"`

	// Waiting are the questions that the turn has asked and not yet been told
	// the answers of; at ResumeBy the missing ones are answered by "timeout".
	// ResumeBy lies at most Patience ahead.
	Waiting  []Wait        `json:"waiting,omitempty"`
	ResumeBy time.Time     `json:"resume_by,omitzero"`
	Patience time.Duration `json:"patience,omitempty"`
}

// Wait is one question to another agent. It is answered once: by a report, or
// by the words "timeout" or "timeout: superseded".
type Wait struct {
	ID     string    `json:"tool_call_id"`
	To     string    `json:"to"`
	Text   string    `json:"text,omitempty"` // the beginning of the question
	Asked  time.Time `json:"asked"`
	Report string    `json:"report,omitempty"` // payload of the report
	Missed string    `json:"missed,omitempty"` // why there is none
}

// Answered says whether nothing more is awaited for it.
func (w Wait) Answered() bool { return w.Report != "" || w.Missed != "" }

// ready says whether a suspended turn has nothing left to wait for.
func (h Head) ready() bool {
	return h.Status == HeadSuspended && !slices.ContainsFunc(h.Waiting, func(w Wait) bool { return !w.Answered() })
}

// Owns says whether (turnID, epoch) may still write for the turn.
func (h Head) Owns(turnID string, epoch uint64) bool {
	return h.Status != HeadIdle && h.TurnID == turnID && h.Epoch == epoch
}
