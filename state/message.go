package state

import "time"

// Source is where a message or a nudge came from (DESIGN 1).
type Source string

// The sources.
const (
	Mail  Source = "mail"
	Mesh  Source = "mesh"
	Nudge Source = "nudge"
	CLI   Source = "cli"
)

// Status is how far a message has come (DESIGN 6). Rows whose status has
// ended leave state.json for the history.
type Status string

// The statuses of a message.
const (
	Queued     Status = "queued"     // durable, waiting for its turn
	Pending    Status = "pending"    // leased: has a turn id and an epoch
	Processing Status = "processing" // its turn runs or is suspended
	Deferred   Status = "deferred"   // waits for NextRetryAt
	Consumed   Status = "consumed"   // its turn ended with a deliverable
	Errored    Status = "error"      // gave up, and said so
	Skipped    Status = "skipped"    // needed no turn
)

// Ended says whether a message of this status has left the inbox for good.
func (s Status) Ended() bool { return s == Consumed || s == Errored || s == Skipped }

// Message is one row of the inbox. Its Key is unique for ever (DESIGN 7):
// mail:<hash>.<uidvalidity>.<uid>, mesh:<from>:<id>, cli:<random>. A row is
// kept lean, since every commit writes every row: whatever can be read from
// the payload (subject, thread, hops, text) is read from there.
type Message struct {
	Key      string `json:"key"`
	Source   Source `json:"source"`
	Kind     string `json:"kind,omitempty"` // mesh: message or ask
	From     string `json:"from"`           // mail: address; mesh: handle; cli: user
	Operator bool   `json:"operator,omitempty"`
	Payload  string `json:"payload,omitempty"` // file of messages/

	// Correlation is what an answer over the mesh refers to (DESIGN 8).
	Correlation string `json:"correlation_id,omitempty"`

	// At orders the messages of one poll: INTERNALDATE or sent_at, never the
	// Date header. Observed is when a poll saw it; timers run from there.
	At       time.Time `json:"at"`
	Observed time.Time `json:"observed,omitzero"`

	Status      Status    `json:"status"`
	Seq         uint64    `json:"seq"` // order of arrival
	TurnID      string    `json:"turn_id,omitempty"`
	Epoch       uint64    `json:"epoch,omitempty"`
	Attempts    int       `json:"attempts,omitempty"`
	Cost        Micros    `json:"micros,omitempty"` // of its turn so far, all attempts together
	NextRetryAt time.Time `json:"next_retry_at,omitzero"`
	Note        string    `json:"note,omitempty"`    // told to the agent with the prompt
	Working     bool      `json:"working,omitempty"` // its turn's "still working" mail was made
}

// Thread is what a mail of ours needs to be shown in the conversation it
// belongs to: the subject, the Message-ID answered, and the chain before it.
type Thread struct {
	Subject    string   `json:"subject,omitempty"`
	MessageID  string   `json:"message_id,omitempty"`
	References []string `json:"references,omitempty"`
}
