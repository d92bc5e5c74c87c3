package mesh

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"agentstateloop/state"
)

// The kinds of mesh messages (DESIGN 8). KindMessage and KindAsk cause turns,
// the others never do.
const (
	KindMessage = "message"
	KindAsk     = "ask"
	KindReport  = "report"
	KindNudge   = "nudge"
	KindRelay   = "relay"
	KindNotice  = "notice"
)

// The bounds of the profile (DESIGN 8).
const (
	MaxMessage  = 64 << 10 // bytes of a POST body; more is answered 413
	MaxMailbox  = 4 << 20  // bytes of one mailbox answer
	MaxMessages = 200      // messages of one mailbox answer
	MaxHops     = 4        // handles a message may have passed
	MaxWait     = time.Minute
)

// Message is one item of a mailbox. What a peer wrote is untrusted: every
// field but Proven and SentAt can hold any bytes.
type Message struct {
	ID           string   `json:"id"`
	From         string   `json:"from"`
	To           string   `json:"to"`
	Text         string   `json:"message"`
	Kind         string   `json:"kind"`
	Correlation  string   `json:"correlation_id,omitempty"`
	Hops         []string `json:"hops,omitempty"`
	ResultFields []string `json:"result_fields,omitempty"`

	// Proven and SentAt are the server's word: a token proved From, and when
	// the message arrived there. Send ignores them.
	Proven bool      `json:"proven"`
	SentAt time.Time `json:"sent_at,omitzero"`
}

// Key is the inbox key of the message, mesh:<from>:<id> (DESIGN 7). Two
// messages have one key only if they have one sender and one id, whatever
// bytes a peer put there; the key is at most 198 bytes of printable ASCII
// without a slash, and so can name a file. A message that came without an id
// is told by its content.
func (m Message) Key() string {
	id := keyPart(m.ID)
	if m.ID == "" {
		content, _ := json.Marshal(m) // strings, a bool and a time cannot fail
		id = digest(content)
	}
	return "mesh:" + keyPart(m.From) + ":" + id
}

// keyPart escapes s for a key: letters, digits, dot, dash and underscore stand
// for themselves, other bytes become %XX, and what would grow long a digest,
// whose tilde no escaped part can hold.
func keyPart(s string) string {
	const longest = 96
	if len(s) > longest {
		return digest([]byte(s))
	}
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '-', c == '_':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	if b.Len() > longest {
		return digest([]byte(s))
	}
	return b.String()
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "~" + hex.EncodeToString(sum[:])
}

// Mailbox is one look into a mailbox. Halted is the mesh's HALT, which stands
// beside the local one (DESIGN 5). Messages are the oldest first.
type Mailbox struct {
	Halted   bool      `json:"halted"`
	Messages []Message `json:"messages"`
}

// UnmarshalJSON refuses more than MaxMessages messages before it has made
// them: 4 MiB of "{}," would be some hundred megabytes of Message.
func (b *Mailbox) UnmarshalJSON(data []byte) error {
	var wire struct {
		Halted   bool        `json:"halted"`
		Messages messageList `json:"messages"`
	}
	if err := json.Unmarshal(data, &wire); err != nil {
		return err
	}
	*b = Mailbox{Halted: wire.Halted, Messages: wire.Messages}
	return nil
}

type messageList []Message

func (l *messageList) UnmarshalJSON(data []byte) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	open, err := dec.Token()
	if err != nil {
		return err
	}
	if open == nil { // null: no messages
		return nil
	}
	if open != json.Delim('[') {
		return errors.New("messages is not a list")
	}
	for dec.More() {
		if len(*l) == MaxMessages {
			return fmt.Errorf("more than %d messages", MaxMessages)
		}
		var m Message
		if err := dec.Decode(&m); err != nil {
			return err
		}
		if m.Kind == "" {
			m.Kind = KindMessage
		}
		*l = append(*l, m)
	}
	return nil
}

// Presence is what an agent tells the registry of itself. Wake is the loopback
// URL that a nudge rings; it may carry a secret, so the mesh never shows it to
// others. SeenAt is the server's word.
type Presence struct {
	Handle   string      `json:"handle,omitempty"`
	Callsign string      `json:"callsign,omitempty"`
	Phase    state.Phase `json:"phase,omitempty"`
	Asleep   bool        `json:"asleep,omitempty"` // nothing waits, nothing runs
	Tier     state.Tier  `json:"tier,omitempty"`   // what it can afford
	Wake     string      `json:"wake,omitempty"`
	SeenAt   time.Time   `json:"seen_at,omitzero"`
}

// Status is the health of a mesh.
type Status struct {
	Halted  bool `json:"halted"`
	Online  int  `json:"online"`  // agents
	Waiting int  `json:"waiting"` // messages and nudges not acknowledged yet

	// Date is the mesh's clock, to the second, as its answer's header has it;
	// zero where it has none.
	Date time.Time `json:"-"`
}

// postBody is the body of POST /message: what a sender may say.
type postBody struct {
	ID           string   `json:"id,omitempty"`
	From         string   `json:"from"`
	To           string   `json:"to"`
	Text         string   `json:"message"`
	Kind         string   `json:"kind,omitempty"`
	Correlation  string   `json:"correlation_id,omitempty"`
	Hops         []string `json:"hops,omitempty"`
	ResultFields []string `json:"result_fields,omitempty"`
}

// nudgeBody is the body of POST /nudge, and of the ring at a wake address.
type nudgeBody struct {
	From   string `json:"from"`
	Reason string `json:"reason,omitempty"`
}

// onlineList is the answer of GET /registry/online.
type onlineList struct {
	Agents []Presence `json:"agents"`
}

// encode is json.Marshal without the HTML escapes, which would sixfold a
// message full of angle brackets on its way to the 64 KiB.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
