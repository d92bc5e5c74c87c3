package state

import "time"

// EffectKind says why an effect exists.
type EffectKind string

// The kinds of effects.
const (
	Ack     EffectKind = "ack"     // mail on IDLE→PREP
	Quiet   EffectKind = "quiet"   // mail on entering IDLE
	Notice  EffectKind = "notice"  // mail that tells the operator of a fault
	Working EffectKind = "working" // mail after two minutes of a turn
	Reply   EffectKind = "reply"   // a turn's deliverable
	Answer  EffectKind = "answer"  // answer to a control
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
// contents: File holds the exact bytes, rendered before the commit that made
// the row.
type Effect struct {
	ID      string     `json:"id"` // ack.<random>, reply.<turn_id>
	Kind    EffectKind `json:"kind"`
	Channel Channel    `json:"channel"`
	To      string     `json:"to"`             // address or handle
	File    string     `json:"file,omitempty"` // in outbox/

	// What the renderer needs; Text is short, a turn's text comes rendered.
	Text        string   `json:"text,omitempty"`
	Subject     string   `json:"subject,omitempty"`
	InReplyTo   string   `json:"in_reply_to,omitempty"`
	References  []string `json:"references,omitempty"`
	Correlation string   `json:"correlation_id,omitempty"`
	Hops        []string `json:"hops,omitempty"`
	TurnID      string   `json:"turn_id,omitempty"`

	Created   time.Time `json:"created"`
	NotBefore time.Time `json:"not_before,omitzero"` // back-off
	Expires   time.Time `json:"expires,omitzero"`    // acks and quiets: 10 minutes
	Attempts  int       `json:"attempts,omitempty"`
	Copies    int       `json:"copies,omitempty"`  // times the final dot was about to be sent
	Unknown   bool      `json:"unknown,omitempty"` // the last copy may have arrived
	Reason    string    `json:"reason,omitempty"`  // of the last failure
}
