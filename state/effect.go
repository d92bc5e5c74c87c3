package state

import "time"

// EffectKind says why an effect exists.
type EffectKind string

// The kinds of effects.
const (
	Ack      EffectKind = "ack"     // mail on IDLE→PREP
	Quiet    EffectKind = "quiet"   // mail on entering IDLE with no work
	Notice   EffectKind = "notice"  // tells of a fault
	Working  EffectKind = "working" // mail after two minutes of a turn
	Reply    EffectKind = "reply"   // a turn's deliverable
	Answer   EffectKind = "answer"  // answers a control; passes HALT
	Question EffectKind = "ask"     // asks another agent; its id is the tool call id
	Post     EffectKind = "send"    // what an agent sends from inside its turn
	Alarm    EffectKind = "alarm"   // tells the keymaster of a credential, so that he acts
	Relay    EffectKind = "relay"   // asks a peer to mail the operator
	Relayed  EffectKind = "relayed" // mails the operator what a peer asked us to

	// Challenge asks the operator whether he wrote a mail that nothing proves.
	Challenge EffectKind = "challenge"
)

// Channel is how an effect leaves.
type Channel string

// The channels.
const (
	ByMail Channel = "mail"
	ByMesh Channel = "mesh"
)

// Effect is one row of the outbox: something that will change the world
// outside the state directory (DESIGN 3, "Save before effects"). Its ID is
// stable, becomes the Message-ID or mesh id, and never names two different
// contents: File holds the exact bytes, rendered before the commit that makes
// the row durable.
type Effect struct {
	ID      string     `json:"id"` // ack.<random>, reply.<turn_id>
	Kind    EffectKind `json:"kind"`
	Channel Channel    `json:"channel"`
	To      string     `json:"to"`             // address or handle
	File    string     `json:"file,omitempty"` // of outbox/

	// What the renderer needs where File is not given with the effect.
	Text   string `json:"text,omitempty"` // notices; acks and quiets are templates
	From   Phase  `json:"from,omitempty"` // quiet: the phase that was left
	Thread Thread `json:"thread,omitzero"`
	TurnID string `json:"turn_id,omitempty"`

	// Of a word about a credential, its name; and of a word to the operator those
	// to whom it was tried in vain.
	Credential string   `json:"credential,omitempty"`
	Tried      []string `json:"tried,omitempty"`

	// What the mesh carries beside the text (DESIGN 8).
	Correlation string   `json:"correlation_id,omitempty"`
	Hops        []string `json:"hops,omitempty"`

	Created   time.Time     `json:"created"`
	NotBefore time.Time     `json:"not_before,omitzero"` // back-off after a temporary failure
	Expires   time.Time     `json:"expires,omitzero"`    // when it is worthless
	Waited    time.Duration `json:"waited,omitempty"`    // time in the outbox while not halted, ns
	Attempts  int           `json:"attempts,omitempty"`  // failures so far
	Copies    int           `json:"copies,omitempty"`    // times the final dot was about to be sent
	Unknown   bool          `json:"unknown,omitempty"`   // the last copy may have arrived
	Sending   bool          `json:"sending,omitempty"`   // it is on its way, or its sender was killed
	Refused   bool          `json:"refused,omitempty"`   // the last failure was its credential's
	Reason    string        `json:"reason,omitempty"`    // of the last failure
}

// The lives of effects (DESIGN 3).
const (
	ackLife        = 10 * time.Minute   // acks and quiets are worthless later
	giveUpAfter    = 5 * 24 * time.Hour // then a row is undeliverable
	maxCopies      = 5                  // of an effect whose fate is unknown
	firstBackoff   = time.Minute
	longestBackoff = time.Hour
)

// perishable says whether the effect is dropped rather than sent late or twice.
func (k EffectKind) perishable() bool { return k == Ack || k == Quiet || k == Working }

// life is after how long an effect is worthless; 0 for one that never is.
func (k EffectKind) life() time.Duration {
	switch k {
	case Ack, Quiet, Working:
		return ackLife
	case Challenge:
		return tokenLife
	}
	return 0
}

// backoff is how long to wait after the given number of failures.
func backoff(failures int) time.Duration {
	d := firstBackoff
	for range failures - 1 {
		d *= 2
		if d >= longestBackoff {
			return longestBackoff
		}
	}
	return d
}
