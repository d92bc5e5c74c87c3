package state

import "time"

// EffectKind names the purpose of an effect.
type EffectKind string

// The kinds of effects.
const (
	Ack      EffectKind = "ack"     // mail on IDLE→PREP
	Quiet    EffectKind = "quiet"   // mail on entering IDLE with no work
	Notice   EffectKind = "notice"  // reports a fault
	Working  EffectKind = "working" // mail after two minutes of a turn
	Reply    EffectKind = "reply"   // a turn's deliverable
	Answer   EffectKind = "answer"  // answers a control; passes HALT
	Question EffectKind = "ask"     // asks another agent; its id is the tool call id
	Post     EffectKind = "send"    // sent by an agent from inside its turn
	Alarm    EffectKind = "alarm"   // asks the keymaster to rotate a credential
	Relay    EffectKind = "relay"   // asks a peer to mail the operator
	Relayed  EffectKind = "relayed" // mails the operator on behalf of a peer

	OperatorQuestion EffectKind = "question" // asks the operator; its id is the id of the question

	// Challenge asks the operator whether they wrote a mail without proof.
	Challenge EffectKind = "challenge"

	HookCall EffectKind = "hook" // an event for a hook
)

// Channel is how an effect leaves.
type Channel string

// The channels.
const (
	ByMail Channel = "mail"
	ByMesh Channel = "mesh"
	ByHook Channel = "hook" // To is the name of a hook
)

// Effect is one row of the outbox: something that will change the world outside
// the state directory (docs/design.md, "Save before effects"). Its ID is stable,
// becomes the Message-ID or mesh id, and never names two different contents. File
// holds the exact bytes, rendered before the commit that makes the row durable.
type Effect struct {
	ID      string     `json:"id"` // ack.<random>, reply.<turn_id>
	Kind    EffectKind `json:"kind"`
	Channel Channel    `json:"channel"`
	To      string     `json:"to"`             // address or handle
	File    string     `json:"file,omitempty"` // in outbox/

	// The input of the renderer if the effect comes without File.
	Text   string `json:"text,omitempty"` // of a notice; acks and quiets are templates
	From   Phase  `json:"from,omitempty"` // the phase that a quiet leaves
	Thread Thread `json:"thread,omitzero"`
	TurnID string `json:"turn_id,omitempty"`

	// Credential names the credential that a notice is about, if any. Tried are the recipients
	// through which a notice to the operator was tried without success.
	Credential string   `json:"credential,omitempty"`
	Tried      []string `json:"tried,omitempty"`

	// The fields of a mesh message besides its text (docs/protocol.md, "The mesh").
	Correlation string   `json:"correlation_id,omitempty"`
	Hops        []string `json:"hops,omitempty"`

	Created   time.Time     `json:"created"`
	NotBefore time.Time     `json:"not_before,omitzero"` // the backoff after a temporary failure
	Expires   time.Time     `json:"expires,omitzero"`    // when it becomes worthless
	Waited    time.Duration `json:"waited,omitempty"`    // ns in the outbox, without the time under HALT
	Attempts  int           `json:"attempts,omitempty"`  // failures so far
	Copies    int           `json:"copies,omitempty"`    // how often the final dot was about to be sent
	Unknown   bool          `json:"unknown,omitempty"`   // the last copy may have arrived
	Sending   bool          `json:"sending,omitempty"`   // it is being sent, or its sender was killed
	Denied    bool          `json:"refused,omitempty"`   // the last failure was a denied credential
	Reason    string        `json:"reason,omitempty"`    // of the last failure

	// For a row in Undelivered: when it was given up, and how the operator was told.
	GivenUp time.Time `json:"given_up,omitzero"`
	Told    Channel   `json:"told,omitempty"` // "" if not yet; ByMesh if a peer was asked to tell them

	// Tells are the ids of the rows in Undelivered that a notice is about.
	Tells []string `json:"tells,omitempty"`

	// Sum is the SHA-256 of the file, in hexadecimal; "" in rows of older versions. A reply also
	// names its source: Epoch is the attempt, and Origin a sum of its deliverable and of the files
	// that go with it.
	Sum    string `json:"sha256,omitempty"`
	Epoch  uint64 `json:"turn_epoch,omitempty"`
	Origin string `json:"origin_sha256,omitempty"`

	// Trace is the id of the effect's chain, or "".
	Trace string `json:"trace_id,omitempty"`

	// ResultFields are the results that a question asks for. Outcome and AfterExecution describe
	// the turn of a report.
	ResultFields   []ResultField `json:"result_fields,omitempty"`
	Outcome        Outcome       `json:"status,omitempty"`
	AfterExecution string        `json:"after_execution,omitempty"`

	// Options are the answers that a question to the operator offers. Asker is the
	// principal whose turn asks, unless that is the operator.
	Options []string  `json:"options,omitempty"`
	Asker   Principal `json:"asker,omitempty"`

	// Cause is the key of the message that an ack after `ack_after` is about.
	Cause string `json:"cause,omitempty"`

	Announces *Announcement `json:"announces,omitempty"` // the event in a row for a hook

	// Answers are the keys of the mails that a reply by mail answers.
	Answers []string `json:"answers,omitempty"`

	// Files go with a mesh message, or are the large attachments of a mail, which File leaves out.
	// Their copies are durable before the row.
	Files []FileRef `json:"files,omitempty"`

	Number uint64 `json:"number,omitempty"` // short, for people; 0 in rows of older versions
}

// FileRef is a file that goes with an effect.
type FileRef struct {
	FileName string `json:"name"` // the name that the recipient sees
	Type     string `json:"type,omitempty"`
	Size     int64  `json:"size"`
	Sum      string `json:"sha256"`
	File     string `json:"file"` // the copy, in outbox/

	// Place is the file in the output box that File is a copy of, if it is large. That file is
	// removed while the row is kept, and comes back when the row ends.
	Place string `json:"place,omitempty"`
}

// How long effects live, and how often they are tried (docs/design.md, "The
// outbox").
const (
	ackLife      = 10 * time.Minute   // acks and quiets are worthless later
	MaxAckAfter  = ackLife            // how long an ack may wait before it is made
	giveUpAfter  = 5 * 24 * time.Hour // then a row is undeliverable
	maxCopies    = 5                  // copies of an effect whose fate is unknown
	firstBackoff = time.Minute
	maxBackoff   = time.Hour
)

// perishable reports whether the effect is dropped rather than sent late or twice.
func (k EffectKind) perishable() bool { return k == Ack || k == Quiet || k == Working }

// life returns the time after which an effect becomes worthless; 0 means never.
func (k EffectKind) life() time.Duration {
	switch k {
	case Ack, Quiet, Working:
		return ackLife
	case Challenge:
		return tokenLife
	case OperatorQuestion:
		return MaxPatience // at most: the row has the time that the turn waits
	}
	return 0
}

// backoff returns how long to wait after the given number of failures.
func backoff(failures int) time.Duration {
	d := firstBackoff
	for range failures - 1 {
		d *= 2
		if d >= maxBackoff {
			return maxBackoff
		}
	}
	return d
}
