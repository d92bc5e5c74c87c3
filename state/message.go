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

// Message is one inbound item in the inbox. Its Key is unique for ever
// (DESIGN 7): mail:<hash>.<uidvalidity>.<uid>, mesh:<from>:<id>, cli:<random>.
// Only metadata stands here; the raw payload is a file of messages/.
type Message struct {
	Key      string `json:"key"`
	Source   Source `json:"source"`
	Kind     string `json:"kind,omitempty"` // mesh: message or ask
	From     string `json:"from"`           // mail: address; mesh: handle
	Operator bool   `json:"operator,omitempty"`
	Control  string `json:"control,omitempty"` // STOP, HALT, GO, STATUS, alone in an operator's new text

	// At orders messages of one poll: INTERNALDATE or sent_at, never the Date
	// header. Observed is when a poll saw it; timers run from there.
	At       time.Time `json:"at"`
	Observed time.Time `json:"observed,omitzero"`

	// Payload names the raw message in messages/. Digest is its Message-ID and
	// header hash, by which a copy under another key is recognised.
	Payload string `json:"payload,omitempty"`
	Digest  string `json:"digest,omitempty"`

	// What a threaded answer needs.
	Subject    string   `json:"subject,omitempty"`
	MessageID  string   `json:"message_id,omitempty"`
	References []string `json:"references,omitempty"`

	// What a mesh answer needs (DESIGN 8).
	MeshID       string   `json:"mesh_id,omitempty"`
	Correlation  string   `json:"correlation_id,omitempty"`
	Hops         []string `json:"hops,omitempty"`
	ResultFields []string `json:"result_fields,omitempty"`

	Status      Status    `json:"status"`
	Seq         uint64    `json:"seq"` // order of arrival
	TurnID      string    `json:"turn_id,omitempty"`
	Epoch       uint64    `json:"epoch,omitempty"`
	Attempts    int       `json:"attempts,omitempty"`
	NextRetryAt time.Time `json:"next_retry_at,omitzero"`
	Note        string    `json:"note,omitempty"` // told to the agent with the prompt
}
