package state

import "time"

// Event is something that happened, reported to Step by the one place that
// can see it. Events of one poll are stepped in the order of their own time;
// what the machine must react to is an Event, never an error.
type Event interface{ event() }

// Arrived: a message passed the gate and its payload is durable.
type Arrived struct {
	Message Message
	Digest  string // of Message-ID and header; "" = none
	UID     uint32 // mail: to be marked \Seen
	MeshID  string // mesh: to be acknowledged
	Thread  Thread // mail: the conversation it belongs to
}

// Refused: an item for this agent did not pass the gate and is in quarantine.
type Refused struct {
	Key, From, Subject, Gate, Reason string
	Source                           Source
	At                               time.Time
	MeshID                           string
}

// Nudged: a doorbell rang.
type Nudged struct {
	Key, From, Reason string
	At                time.Time
	MeshID            string // held by the mesh until acknowledged
}

// Noted: an item that needs neither turn nor gate: an echo of ourselves, a
// report nobody waits for. It is acknowledged and told in the history.
type Noted struct {
	Key, Kind, From, Reason string
	Source                  Source
	MeshID                  string
}

// NudgeFiles: the keys of all files in nudges/ now, so that the keys of those
// that are gone can be forgotten.
type NudgeFiles struct{ Keys []string }

// Looked: a source was read to its end. Mail brings its new cursor.
type Looked struct {
	Source Source
	Cursor *Cursor
}

// LookFailed: a source could not be read, or not to its end. What was read
// before counts: mail brings the cursor of it.
type LookFailed struct {
	Source Source
	Reason string
	Cursor *Cursor
}

// Unreadable: a mail that failed three times alone is given up (DESIGN 7).
type Unreadable struct {
	Key string
}

// Polled ends the observation of one cycle. Only here timers are looked at.
type Polled struct{}

// CredentialFailed and CredentialWorked report on one named secret.
type (
	CredentialFailed struct{ Name, Reason string }
	CredentialWorked struct{ Name string }
)

// Ordered: `transition STATE`, the operator's override.
type Ordered struct {
	To     Phase
	Reason string
	NoMail bool
}

// Switched: HALT (On) or GO, by hand or mail, or as the mesh has it.
type Switched struct {
	Mesh   bool
	On     bool
	Reason string
}

// Flagged and MeshAcked: the server was told that messages were read.
type (
	Flagged struct {
		Validity uint32
		UIDs     []uint32
	}
	MeshAcked struct{ IDs []string }
)

// Sending: the final dot of an effect is about to leave; until Sent or
// SendFailed follows its fate is unknown.
type Sending struct{ ID string }

// Sent: the effect was accepted by its server.
type Sent struct{ ID string }

// SendFailed: it was not, or nobody knows.
type SendFailed struct {
	ID         string
	Permanent  bool
	Unknown    bool // broke after the final dot
	Reason     string
	RetryAfter time.Duration // as the server asked; 0 = our own back-off
}

// Scheduled: the installed crontab line was compared with the wanted one, and
// is now Line, which runs Binary; Reason says why it could not be, and Line
// what is known then.
type Scheduled struct{ Line, Binary, Reason string }

// Unscheduled: `uninstall` (Removed) took the line away; cycles leave the
// table alone until `init` or `transition` sends it with Removed false.
type Unscheduled struct{ Removed bool }

// Claimed: the holder of turn.lock asks for the next message to run.
type Claimed struct{}

// Started: the process of the turn runs.
type Started struct {
	TurnID string
	Epoch  uint64
}

// Ended: the turn is over, with its deliverable.
type Ended struct {
	TurnID      string
	Epoch       uint64
	Outcome     Outcome
	Reason      string
	OutputBox   string  // turns/<turn_id>/<epoch>/output
	Deliverable string  // a file in that box
	Reply       *Effect // rendered; nil when nobody is to be sent it
}

// Reaped: the watchdog found that the turn's owner has died.
type Reaped struct {
	TurnID string
	Epoch  uint64
	Reason string
}

// Recovered: state.json could not be used and was rebuilt.
type Recovered struct{ Reason string }

func (Arrived) event()          {}
func (Refused) event()          {}
func (Nudged) event()           {}
func (Noted) event()            {}
func (NudgeFiles) event()       {}
func (Looked) event()           {}
func (LookFailed) event()       {}
func (Unreadable) event()       {}
func (Polled) event()           {}
func (CredentialFailed) event() {}
func (CredentialWorked) event() {}
func (Ordered) event()          {}
func (Switched) event()         {}
func (Flagged) event()          {}
func (MeshAcked) event()        {}
func (Sending) event()          {}
func (Sent) event()             {}
func (SendFailed) event()       {}
func (Scheduled) event()        {}
func (Unscheduled) event()      {}
func (Claimed) event()          {}
func (Started) event()          {}
func (Ended) event()            {}
func (Reaped) event()           {}
func (Recovered) event()        {}
