package state

import "time"

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
}

// Owns says whether (turnID, epoch) may still write for the turn.
func (h Head) Owns(turnID string, epoch uint64) bool {
	return h.Status != HeadIdle && h.TurnID == turnID && h.Epoch == epoch
}
