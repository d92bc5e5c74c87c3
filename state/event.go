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

// Refused: an item for this agent did not pass the gate and is in quarantine,
// or, Unkept, was beyond its limits. Ask: nothing but a proof of its sender is
// missing, so that the operator may be asked.
type Refused struct {
	Key, From, Subject, Gate, Reason string
	Source                           Source
	At                               time.Time
	Digest                           string // as of Arrived
	MeshID                           string
	Unkept, Ask                      bool
}

// Released: the item of the quarantine under Key is let in, whatever the gate
// said of it, as Event. Its payload is durable in messages/. Same recognises the
// same bytes that came at the same time, as a renumbered mailbox brings them
// again under another key; "" is none.
type Released struct {
	Key, Reason, Same string
	Event             Event
}

// Challenged: a mail was rendered that asks the operator whether he wrote the
// item under Key, with a token of this hash. Its id is not made of the token.
type Challenged struct {
	Key, Hash string
	Mail      Effect
}

// Vouched: the mail under Key shows the token of this hash, in a place where
// only who has read our challenge can put it. Then is what the mail is, or what
// it releases, if the challenge is open; Else, if it is not.
type Vouched struct {
	Key, Hash  string
	UID        uint32 // to be marked \Seen if the challenge is open
	At         time.Time
	Then, Else Event
}

// Discarded: an item was taken out of the quarantine for good.
type Discarded struct{ Key, Reason string }

// QuarantineHolds: so many items are in quarantine/ now.
type QuarantineHolds struct{ Items int }

// Nudged: a doorbell rang.
type Nudged struct {
	Key, From, Reason string
	At                time.Time
	MeshID            string // held by the mesh until acknowledged
}

// Controlled: a mail of the operator that says STOP, HALT, GO or STATUS and
// nothing else. It is skipped as a message, and answered.
type Controlled struct {
	Arrived
	Control string
}

// Noted: an item that needs neither turn nor gate: an echo of ourselves, a
// report nobody waits for. It is acknowledged and told in the history. Answer,
// where there is one, is sent back.
type Noted struct {
	Key, Kind, From, Reason string
	Source                  Source
	MeshID                  string
	Answer                  *Effect
}

// Reported: a peer's report to something we asked. Its payload is durable.
type Reported struct {
	Key, From, Payload, MeshID string
	ToolCallID                 string
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
	Cursor *Cursor
}

// Unreadable: a mail that failed three times alone is given up (DESIGN 7).
type Unreadable struct {
	Key string
}

// Polled ends the observation of one cycle. Only here timers are looked at.
// Again: in a further round of the same poll, which tries no credential twice.
type Polled struct{ Again bool }

// CredentialFailed and CredentialWorked report on one named secret. Reading: it
// was proved by reading, which proves nothing about sending.
type (
	CredentialFailed struct{ Name, Reason string }
	CredentialWorked struct {
		Name    string
		Reading bool
	}
)

// RelayAsked: a listed peer, proven by its token, asks us to mail Text to our
// operator.
type RelayAsked struct {
	Key, From, Text, MeshID string
}

// Online: the handles that the mesh's registry shows, asked for since a request
// to relay waits.
type Online struct{ Handles []string }

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
		Mailbox  string
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
	Refused    bool // not the effect was, but its credential: the next cycle tries again
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

// Claimed: the holder of turn.lock asks for the next message to run. Pull is
// `inbox next`, by which an agent that pulls takes it.
type Claimed struct{ Pull bool }

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
	Session     Session // to go on with; zero when there is none
}

// Submitted: from inside its turn, the agent has set the deliverable: a file
// of the output box.
type Submitted struct {
	TurnID, Deliverable string
	Epoch               uint64
}

// Asked: from inside its turn, the agent asks another one. Question goes out;
// its id is the tool call id that a report repeats.
type Asked struct {
	TurnID   string
	Epoch    uint64
	Question Effect
	Patience time.Duration // how long the turn may wait for the report
}

// Posted: from inside its turn, the agent sends something that nobody is to
// wait for.
type Posted struct {
	TurnID string
	Epoch  uint64
	Effect Effect
}

// Slept: the agent wishes to be left alone for a while.
type Slept struct {
	TurnID string
	Epoch  uint64
	For    time.Duration
}

// Remembered: from inside its turn, the agent replaces its working memory.
type Remembered struct {
	TurnID string
	Epoch  uint64
	Text   string
}

// Suspended: an attempt that asked has ended well and submitted nothing.
type Suspended struct {
	TurnID  string
	Epoch   uint64
	Box     string // its output box
	Session Session
}

// GivenBack: the attempt could not do its work, and not for the message's
// sake: its credential was refused, its session is gone, its runner was told
// to go. It does not count, and is made again after Wait.
type GivenBack struct {
	TurnID string
	Epoch  uint64
	Reason string
	Wait   time.Duration
	Forget bool // the session is gone
}

// Stopped: `stop`, or a mail that says STOP.
type Stopped struct{ Reason string }

// Resetted: `reset`: the agent's memory begins anew, with a note.
type Resetted struct{ Note, Origin string }

// Compacted: a summary (Text, kept durably in File) stands for all exchanges of
// attempts up to Through, and for the agent's session of that id, if there is
// one. An empty File is a summary that came to nothing, for Reason.
type Compacted struct {
	Session    string
	Through    uint64
	File, Text string
	Reason     string
}

// Retried: `inbox retry`: a message that was given up, or is held back, is
// queued again, at the end.
type Retried struct{ Message Message }

// Dropped: `inbox drop`: a message that waits is to have no turn.
type Dropped struct{ Key, Reason string }

// Reaped: the watchdog found that the turn's owner has died.
type Reaped struct {
	TurnID string
	Epoch  uint64
	Reason string
}

// Pruned: the folders hold nothing older than is kept.
type Pruned struct{}

// Recovered: state.json could not be used and was rebuilt.
type Recovered struct{ Reason string }

func (Arrived) event()          {}
func (Refused) event()          {}
func (Released) event()         {}
func (Challenged) event()       {}
func (Vouched) event()          {}
func (Discarded) event()        {}
func (QuarantineHolds) event()  {}
func (Nudged) event()           {}
func (Controlled) event()       {}
func (Noted) event()            {}
func (Reported) event()         {}
func (Submitted) event()        {}
func (Asked) event()            {}
func (Posted) event()           {}
func (Slept) event()            {}
func (Remembered) event()       {}
func (Suspended) event()        {}
func (GivenBack) event()        {}
func (Stopped) event()          {}
func (Resetted) event()         {}
func (Compacted) event()        {}
func (Retried) event()          {}
func (Dropped) event()          {}
func (NudgeFiles) event()       {}
func (Looked) event()           {}
func (LookFailed) event()       {}
func (Unreadable) event()       {}
func (Polled) event()           {}
func (CredentialFailed) event() {}
func (CredentialWorked) event() {}
func (RelayAsked) event()       {}
func (Online) event()           {}
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
func (Pruned) event()           {}
func (Recovered) event()        {}
