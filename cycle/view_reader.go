package cycle

import (
	"agentstateloop/cycle/quarantine"
	"agentstateloop/state"
	"agentstateloop/state/store"
	"agentstateloop/turn"
	"time"
)

// Reader reads one agent for people and programs. It changes nothing, and asks no server.
type Reader struct {
	Handle string
	Store  *store.Store
	Policy *state.Policy
	Now    func() time.Time
	Turn   *turn.Config // nil with runner "none"
	Mesh   string       // the address of the mesh, or ""

	ReadsMail   bool // a mailbox is configured
	ProvesMail  bool // the gate of mail proves senders
	Unscheduled bool // the agent has no schedule of its own

	Quarantine quarantine.Folder
	CheckEvery time.Duration // how often AwaitNudge reads the state, times five

	// Schedule compares the crontab lines that a state asks for with the installed ones.
	Schedule func(state.State) StatusSchedule
}
