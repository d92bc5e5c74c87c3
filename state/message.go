package state

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Source is where a message or a nudge came from (docs/design.md, "Glossary").
type Source string

// The sources.
const (
	Mail  Source = "mail"
	Mesh  Source = "mesh"
	Nudge Source = "nudge"
	CLI   Source = "cli"
	Self  Source = "self" // the agent itself: a sleep, a rest or a reminder

	// Clock is a prompt by the clock, at its time.
	Clock Source = "prompt"

	// EventSource is a program on this machine that reports something, and `tell --mail`.
	EventSource Source = "event"
)

// Status is the progress of a message (docs/design.md, "Inbox and turns"). Rows with a final status
// leave state.json for the history.
type Status string

// The statuses of a message.
const (
	Queued     Status = "queued"     // durable, waiting for its turn
	Pending    Status = "pending"    // leased: has a turn id and an epoch
	Processing Status = "processing" // its turn runs or is suspended
	Deferred   Status = "deferred"   // waits for NextRetryAt
	Consumed   Status = "consumed"   // its turn ended with a deliverable
	Errored    Status = "error"      // given up, and reported as given up
	Skipped    Status = "skipped"    // needed no turn
)

// Ended reports whether a message of this status has left the inbox for good.
func (s Status) Ended() bool { return s == Consumed || s == Errored || s == Skipped }

// Message is one row of the inbox. Its Key is unique forever (docs/protocol.md, "Keys and the
// cursor"): mail:<hash>.<uidvalidity>.<uid>, mesh:<from>:<id>, cli:<random>, self:<random> or
// prompt:<name>:<time>. A row is small, because every commit writes every row. The subject, thread,
// hops and text are read from the payload.
type Message struct {
	Key      string `json:"key"`
	Source   Source `json:"source"`
	Kind     string `json:"kind,omitempty"`     // mesh: message or ask; self: sleep, rest or reminder; prompt: always or said
	From     string `json:"from"`               // address, handle or user, by Source
	Operator bool   `json:"operator,omitempty"` // its turn answers the operator
	Proof    Proof  `json:"proof,omitempty"`    // of From, if that is another agent
	Payload  string `json:"payload,omitempty"`  // file in messages/

	// Correlation is the id that an answer through the mesh repeats (docs/protocol.md, "The mesh").
	Correlation string `json:"correlation_id,omitempty"`

	// AsksFields is set if the sender names the results that the answer must have.
	AsksFields bool `json:"asks_fields,omitempty"`

	// Trace is the id of the message's chain: the message that began it, and the turns and
	// questions that came of it, at all agents. A step mints it for a message without one.
	Trace string `json:"trace_id,omitempty"`

	// At orders the messages of one poll. It is INTERNALDATE or sent_at, never the
	// Date header. Observed is when a poll saw the message; timers run from there.
	At       time.Time `json:"at"`
	Observed time.Time `json:"observed,omitzero"`

	Status      Status    `json:"status"`
	Seq         uint64    `json:"seq"` // order of arrival
	TurnID      string    `json:"turn_id,omitempty"`
	Epoch       uint64    `json:"epoch,omitempty"`
	Attempts    int       `json:"attempts,omitempty"`
	Cost        Micros    `json:"micros,omitempty"` // of all attempts of its turn so far
	NextRetryAt time.Time `json:"next_retry_at,omitzero"`
	Note        string    `json:"note,omitempty"`    // for the agent, in the prompt
	Fresh       bool      `json:"fresh,omitempty"`   // its next attempt begins a session, because the last one could not continue its own
	Working     bool      `json:"working,omitempty"` // its turn's "still working" mail was made
	Reason      string    `json:"reason,omitempty"`  // why it is deferred, in words

	// Nameless is set for a mail that is one file whose name may not be the sender's.
	Nameless bool `json:"nameless,omitempty"`

	// Sum is the SHA-256 of the payload, in hexadecimal; "" in rows of older versions. Damaged is
	// set while the payload does not match it, and the message waits to be fetched again. Refetches
	// counts the polls that could not fetch it.
	Sum       string `json:"sha256,omitempty"`
	Size      int    `json:"size,omitempty"` // of the payload, in bytes; 0 in rows of older versions
	Damaged   bool   `json:"damaged,omitempty"`
	Refetches int    `json:"refetches,omitempty"`

	// Held is set for a row that a restore brought back. It may have run already, so it waits for
	// `inbox retry` or `inbox drop`.
	Held bool `json:"held,omitempty"`

	// For a row of the agent itself: how far ahead its time was, the beginning of its text, the
	// turn that made it, and the file with that turn's deliverable. Early is set once its turn may
	// come before its time.
	Span   time.Duration `json:"span,omitempty"`
	Early  bool          `json:"early,omitempty"`
	Title  string        `json:"title,omitempty"`
	MadeBy string        `json:"made_by,omitempty"`
	Said   string        `json:"said,omitempty"`

	// ByHand is set for a prompt by the clock that a person wants now. ByClock is set for a row
	// that the agent made itself in the turn of a prompt by the clock, or of a row with ByClock: it
	// has no more rights than a prompt.
	ByHand  bool `json:"by_hand,omitempty"`
	ByClock bool `json:"by_clock,omitempty"`

	// FollowsUp is the key of the message that this one follows up, whose turn is over.
	FollowsUp string `json:"follows_up,omitempty"`

	// ThreadID is the id of the message's mail thread, if that is a conversation of its own; see
	// Thread.ID. Thread, in a row of the agent itself, is where its answer goes; nil means a new
	// thread. It is never changed, so that rows can be compared.
	ThreadID string  `json:"thread_id,omitempty"`
	Thread   *Thread `json:"thread,omitempty"`

	// EndedSleep is the beginning of the reason with which the agent would have woken itself
	// without this message.
	EndedSleep string `json:"ended_sleep,omitempty"`
}

// Thread holds the headers that show a mail of ours in its conversation: the subject, the
// Message-ID that it answers, and the chain before that.
type Thread struct {
	Subject    string   `json:"subject,omitempty"`
	MessageID  string   `json:"message_id,omitempty"`
	References []string `json:"references,omitempty"`

	// ID is the same for all mails of a thread. It is "" if threads have no conversations of their
	// own, or the conversation is not a mail thread.
	ID string `json:"id,omitempty"`
}

// MaxEventMessages is how many messages of programs may wait.
const MaxEventMessages = 200

// RoomForEvents returns how many more messages of programs may wait.
func (r Received) RoomForEvents() int {
	room := MaxEventMessages
	for _, msg := range r.Inbox {
		if msg.Cause() == CauseEvent {
			room--
		}
	}
	return max(0, room)
}

// The types of result fields, named as in JSON Schema. A field without a type takes any value.
const (
	TypeString  = "string"
	TypeNumber  = "number"
	TypeInteger = "integer"
	TypeBoolean = "boolean"
	TypeArray   = "array"
	TypeObject  = "object"
)

// Limits on the result fields of a message.
const (
	MaxResultFields     = 32
	maxFieldName        = 64  // bytes
	maxFieldDescription = 500 // bytes
)

var fieldTypes = []string{TypeString, TypeNumber, TypeInteger, TypeBoolean, TypeArray, TypeObject}

// ResultField is one named result that the sender of a message asks for
// (docs/protocol.md, "The contract between agents").
type ResultField struct {
	Name        string `json:"name"`
	Type        string `json:"type,omitempty"`        // "" means any
	Description string `json:"description,omitempty"` // by the sender, on one line
	Required    bool   `json:"required,omitempty"`
}

// String returns the field as people and agents see it.
func (f ResultField) String() string {
	text := f.Name + ": " + cmp.Or(f.Type, "any value")
	if f.Required {
		text += ", required"
	}
	if f.Description != "" {
		text += ". " + f.Description
	}
	return text
}

// CheckResultFields returns an error unless a message may ask for these fields.
func CheckResultFields(fields []ResultField) error {
	if len(fields) > MaxResultFields {
		return fmt.Errorf("there are more than %d result fields", MaxResultFields)
	}
	names := map[string]bool{}
	for _, f := range fields {
		if !ValidFieldName(f.Name) {
			return fmt.Errorf("a result field must have a name of 1 to %d of the characters A-Z a-z 0-9 _ -", maxFieldName)
		}
		if names[f.Name] {
			return fmt.Errorf("the result field %s appears twice", f.Name)
		}
		names[f.Name] = true
		if f.Type != "" && !slices.Contains(fieldTypes, f.Type) {
			return fmt.Errorf("the type of the result field %s must be one of %s", f.Name, strings.Join(fieldTypes, ", "))
		}
		if len(f.Description) > maxFieldDescription || strings.ContainsFunc(f.Description, unicode.IsControl) {
			return fmt.Errorf("the description of the result field %s exceeds %d bytes or contains a control character", f.Name, maxFieldDescription)
		}
	}
	return nil
}

// ValidFieldName reports whether a result may have this name.
func ValidFieldName(name string) bool {
	return name != "" && len(name) <= maxFieldName && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	})
}
