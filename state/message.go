package state

import "time"

// Source is where a message or a nudge came from (docs/design.md, "Glossary").
type Source string

// The sources.
const (
	Mail  Source = "mail"
	Mesh  Source = "mesh"
	Nudge Source = "nudge"
	CLI   Source = "cli"
	Self  Source = "self" // the agent itself: a sleep, a rest or a reminder

	// Clock is a prompt of the configuration, at its time.
	Clock Source = "prompt"

	// EventSource is a program on this machine that has something to say, and `tell --mail`.
	EventSource Source = "event"
)

// Status is how far a message has come (docs/design.md, "Inbox and turns"). Rows
// whose status has ended leave state.json for the history.
type Status string

// The statuses of a message.
const (
	Queued     Status = "queued"     // durable, waiting for its turn
	Pending    Status = "pending"    // leased: has a turn id and an epoch
	Processing Status = "processing" // its turn runs or is suspended
	Deferred   Status = "deferred"   // waits for NextRetryAt
	Consumed   Status = "consumed"   // its turn ended with a deliverable
	Errored    Status = "error"      // given up, and reported as such
	Skipped    Status = "skipped"    // needed no turn
)

// Ended reports whether a message of this status has left the inbox for good.
func (s Status) Ended() bool { return s == Consumed || s == Errored || s == Skipped }

// Message is one row of the inbox. Its Key is unique forever (docs/design.md,
// "Keys and the cursor"): mail:<hash>.<uidvalidity>.<uid>, mesh:<from>:<id>,
// cli:<random>, self:<random> or prompt:<name>:<time>. A row is small, because every commit writes every row. What can be
// read from the payload (subject, thread, hops, text) is read from there.
type Message struct {
	Key      string `json:"key"`
	Source   Source `json:"source"`
	Kind     string `json:"kind,omitempty"`     // of the mesh: message or ask; of the agent itself: sleep, rest or reminder; of the clock: always or said
	From     string `json:"from"`               // address, handle or user, by Source
	Operator bool   `json:"operator,omitempty"` // its turn answers the operator
	Proof    Proof  `json:"proof,omitempty"`    // of From, if that is another agent
	Payload  string `json:"payload,omitempty"`  // file of messages/

	// Correlation is the id that an answer via the mesh repeats (docs/design.md,
	// "The mesh").
	Correlation string `json:"correlation_id,omitempty"`

	// AsksFields is set if the sender names the results that the answer is to have.
	AsksFields bool `json:"asks_fields,omitempty"`

	// Trace is the id of the chain that the message belongs to: the message that began
	// it, the turns and the questions that came of it, at whatever agent. A step mints
	// it for a message that comes without one.
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
	Note        string    `json:"note,omitempty"`    // the agent reads it in the prompt
	Fresh       bool      `json:"fresh,omitempty"`   // its next attempt begins a session, because the last one could not go on with its own
	Working     bool      `json:"working,omitempty"` // its turn's "still working" mail was made
	Reason      string    `json:"reason,omitempty"`  // why it is deferred, in words

	// Nameless is set of a mail that is one file whose name the sender need not have
	// written.
	Nameless bool `json:"nameless,omitempty"`

	// Sum is the SHA-256 of the payload, in hexadecimal; "" in rows of older versions.
	// Damaged is set while the payload is not that, and the message waits until it was
	// had again. Refetches counts the polls that could not have it.
	Sum       string `json:"sha256,omitempty"`
	Size      int    `json:"size,omitempty"` // of the payload, in bytes; 0 in rows of older versions
	Damaged   bool   `json:"damaged,omitempty"`
	Refetches int    `json:"refetches,omitempty"`

	// Of a row of the agent itself: how far ahead its time was, the beginning of its
	// words, the turn that made it, and the file with what that turn said at last. Early is
	// set once its turn may come before its time.
	Span   time.Duration `json:"span,omitempty"`
	Early  bool          `json:"early,omitempty"`
	Title  string        `json:"title,omitempty"`
	MadeBy string        `json:"made_by,omitempty"`
	Said   string        `json:"said,omitempty"`

	// ByHand is set of a prompt of the clock that a person wants now. ByClock is set of a
	// row of the agent itself that it made in the turn of such a prompt, or of its own row
	// with that mark: it has no more rights than a prompt.
	ByHand  bool `json:"by_hand,omitempty"`
	ByClock bool `json:"by_clock,omitempty"`

	// FollowsUp is the key of the message that this one stands for, whose turn is over.
	FollowsUp string `json:"follows_up,omitempty"`

	// ThreadID is the id of the mail thread that the message belongs to, if that is a
	// conversation of its own; see Thread.ID. Thread is, of a row of the agent itself, where
	// its answer goes; nil: a new thread. It is never changed, so that rows can be compared.
	ThreadID string  `json:"thread_id,omitempty"`
	Thread   *Thread `json:"thread,omitempty"`

	// EndedSleep is the beginning of the words with which the agent would have woken
	// itself, had this message not come.
	EndedSleep string `json:"ended_sleep,omitempty"`
}

// Thread holds what a mail of ours needs to be shown in its conversation: the
// subject, the Message-ID that it answers, and the chain before that.
type Thread struct {
	Subject    string   `json:"subject,omitempty"`
	MessageID  string   `json:"message_id,omitempty"`
	References []string `json:"references,omitempty"`

	// ID is the same for all mails of a thread; "" if threads have no conversations of their
	// own, or the conversation is not a mail thread.
	ID string `json:"id,omitempty"`
}

// MaxEventMessages is how many messages of programs may wait.
const MaxEventMessages = 200

// RoomForEvents returns how many more messages of programs may wait.
func (s State) RoomForEvents() int {
	room := MaxEventMessages
	for _, msg := range s.Inbox {
		if msg.Cause() == CauseEvent {
			room--
		}
	}
	return max(0, room)
}
