package mesh

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"mime"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"agentstateloop/state"
)

// The kinds of mesh messages. KindMessage and KindAsk cause turns; the others
// never do.
const (
	KindMessage = "message"
	KindAsk     = "ask"
	KindReport  = "report"
	KindNudge   = "nudge"
	KindRelay   = "relay"
	KindNotice  = "notice"
	KindForward = "forward" // from a host of the agent to its own mailbox, on a mesh over NATS
)

// How an agent continues after a report.
const (
	Continue  = "continue"  // with its next message
	Suspend   = "suspend"   // the turn waits for a later report
	Terminate = "terminate" // the turn ends at once
)

// The limits of the profile.
const (
	MaxMessage  = 64 << 10 // bytes of a POST body; more is answered 413
	MaxMailbox  = 4 << 20  // bytes of one mailbox answer
	MaxMessages = 200      // messages of one mailbox answer
	MaxHops     = 4        // handles that a message may have passed through
	MaxCallsign = 64       // bytes of a name in the registry
	MaxWait     = time.Minute
)

// Message is one item of a mailbox. Every field except Proven and SentAt comes from the sender
// and can hold any bytes.
type Message struct {
	ID          string   `json:"id"`
	From        string   `json:"from"`
	To          string   `json:"to"`
	Text        string   `json:"message"`
	Kind        string   `json:"kind"`
	Correlation string   `json:"correlation_id,omitempty"`
	Hops        []string `json:"hops,omitempty"`

	ResultFields ResultFields `json:"result_fields,omitempty"` // the results that the sender asks for
	Trace        string       `json:"trace_id,omitempty"`      // the id of the message's chain

	// The fields of a report besides its text: how the turn ended, which turn and attempt it
	// was, its results, and how the agent continues. Older agents leave them empty.
	Status         state.Outcome `json:"status,omitempty"`
	TurnID         string        `json:"turn_id,omitempty"`
	Epoch          uint64        `json:"epoch,omitempty"`
	Fields         Fields        `json:"fields,omitempty"`
	AfterExecution string        `json:"after_execution,omitempty"`

	Files []File `json:"files,omitempty"` // the files of the message

	// The server sets Proven if a token proves From, and sets SentAt to the time of arrival.
	// Send ignores both.
	Proven bool      `json:"proven"`
	SentAt time.Time `json:"sent_at,omitzero"`

	// AckID acknowledges the message where its id is not enough: over NATS two senders may use one
	// id. It is the sender, a slash and the id. Otherwise it is empty.
	AckID string `json:"-"`
}

// Key returns the inbox key of the message, mesh:<from>:<id>. Two messages have the same key
// only if they have the same sender and id, even if those contain arbitrary bytes. The key has
// at most 198 bytes of printable ASCII without a slash, so it can name a file. If a message has
// an empty id, a digest of the content takes its place in the key.
func (m Message) Key() string {
	id := keyPart(m.ID)
	if m.ID == "" {
		m.Files = slices.Clone(m.Files)
		for i := range m.Files {
			m.Files[i].Missing = "" // the sender did not send it
		}
		content, _ := json.Marshal(m) // encoding strings, a bool and a time cannot fail
		id = digest(content)
	}
	return m.SenderKey() + id
}

// SenderKey returns the prefix of the keys of all messages of this sender. Other keys never
// have it.
func (m Message) SenderKey() string { return "mesh:" + keyPart(m.From) + ":" }

// keyPart escapes s for a key. Letters, digits, dot, dash and underscore stay;
// other bytes become %XX. A long part becomes a digest, which begins with a
// tilde; an escaped part never contains one.
func keyPart(s string) string {
	const maxPart = 96
	if len(s) > maxPart {
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
	if b.Len() > maxPart {
		return digest([]byte(s))
	}
	return b.String()
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "~" + hex.EncodeToString(sum[:])
}

// Mailbox is the content of a mailbox, oldest message first. Halted is the HALT of the mesh. An
// agent is halted by this HALT or its own (docs/design.md, "HALT").
type Mailbox struct {
	Halted   bool      `json:"halted"`
	Messages []Message `json:"messages"`

	// HaltUnproven means that Halted is not proven. The HALT of the mesh is unchanged then.
	HaltUnproven bool `json:"-"`

	// Undecoded holds the items that are not messages. They do not block the messages.
	Undecoded []Undecoded `json:"undecoded,omitempty"`
}

// Empty reports whether the mailbox has no items.
func (b Mailbox) Empty() bool { return len(b.Messages)+len(b.Undecoded) == 0 }

// decodeList decodes an array of at most most items, or null. It stops at the first item beyond
// that.
func decodeList[T any](data []byte, limit int, name string) (list []T, err error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	open, err := dec.Token()
	if err != nil || open == nil { // null: an empty list
		return nil, err
	}
	if open != json.Delim('[') {
		return nil, fmt.Errorf("%s is not an array", name)
	}
	for dec.More() {
		if len(list) == limit {
			return nil, fmt.Errorf("more than %d %s", limit, name)
		}
		var item T
		if err := dec.Decode(&item); err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, nil
}

// Presence is an agent's row of the registry. Wake is the loopback URL, made of a WakePath,
// that the mesh calls for a nudge. It contains a secret, so the mesh never shows it to others.
// The server sets SeenAt.
type Presence struct {
	Handle   string      `json:"handle,omitempty"`
	Callsign string      `json:"callsign,omitempty"`
	Phase    state.Phase `json:"phase,omitempty"`
	Asleep   bool        `json:"asleep,omitempty"` // the agent has no queued or running work
	Tier     state.Tier  `json:"tier,omitempty"`   // its budget tier
	Host     string      `json:"host,omitempty"`   // the host that published this row, if the mesh knows hosts
	Hosts    []HostSeen  `json:"hosts,omitempty"`  // the hosts where the agent looks for work
	Wake     string      `json:"wake,omitempty"`
	SeenAt   time.Time   `json:"seen_at,omitzero"`
	Away     bool        `json:"-"` // the agent is not online
}

// HostSeen is a host of an agent, and when the agent last looked for work there.
type HostSeen struct {
	Host   string    `json:"host"`
	SeenAt time.Time `json:"seen_at"`
	Away   bool      `json:"-"` // the agent is not online there

	Version string `json:"version,omitempty"` // of this program there; "" if unknown
}

// Status is the health of a mesh.
type Status struct {
	Halted  bool `json:"halted"`
	Online  int  `json:"online"`  // agents
	Waiting int  `json:"waiting"` // unacknowledged messages and nudges

	// Date is the mesh's clock, to the second, from the Date header of the
	// answer; zero if the header is missing.
	Date time.Time `json:"-"`
}

// postBody is the body of POST /message: the fields that a sender may set.
type postBody struct {
	ID           string       `json:"id,omitempty"`
	From         string       `json:"from"`
	To           string       `json:"to"`
	Text         string       `json:"message"`
	Kind         string       `json:"kind,omitempty"`
	Correlation  string       `json:"correlation_id,omitempty"`
	Hops         []string     `json:"hops,omitempty"`
	ResultFields ResultFields `json:"result_fields,omitempty"`
	Trace        string       `json:"trace_id,omitempty"`

	Status         state.Outcome `json:"status,omitempty"`
	TurnID         string        `json:"turn_id,omitempty"`
	Epoch          uint64        `json:"epoch,omitempty"`
	Fields         Fields        `json:"fields,omitempty"`
	AfterExecution string        `json:"after_execution,omitempty"`

	Files []File `json:"files,omitempty"` // the files of the message
}

// postedMessage is postBody as our server reads it. The text may be named body.
type postedMessage struct {
	postBody
	Message *string `json:"message"` // instead of Text
	Body    *string `json:"body"`
}

// post returns the body with its text. It returns an error if message and body differ.
func (p postedMessage) post() (postBody, error) {
	if p.Message != nil && p.Body != nil && *p.Message != *p.Body {
		return p.postBody, errTwoTexts
	}
	if text := cmp.Or(p.Message, p.Body); text != nil {
		p.Text = *text
	}
	return p.postBody, nil
}

// nudgeBody is the body of POST /nudge.
type nudgeBody struct {
	From   string `json:"from"`
	Reason string `json:"reason,omitempty"`
}

// onlineList is the answer of GET /registry/online.
type onlineList struct {
	Agents presenceList `json:"agents"`
}

// decode decodes the answer of a mesh with other member names.
func (o *onlineList) decode(data []byte, keys Keys) error {
	if len(keys) == 0 {
		return json.Unmarshal(data, o)
	}
	var list struct {
		Agents json.RawMessage `json:"agents"`
	}
	members, err := splitObject(data)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(joinObject(keys.of(reflect.TypeFor[onlineList]()).ours(members)), &list); err != nil || list.Agents == nil {
		return err
	}
	rows, err := decodeList[json.RawMessage](list.Agents, maxAgents, "agents")
	if err != nil {
		return err
	}
	o.Agents = make(presenceList, len(rows))
	for i, row := range rows {
		if err := keys.decode(row, &o.Agents[i]); err != nil {
			return err
		}
	}
	return nil
}

// presenceList holds at most maxAgents, like a registry. Without this limit, an answer of 4 MiB
// of "{}," would take hundreds of megabytes.
type presenceList []Presence

func (l *presenceList) UnmarshalJSON(data []byte) (err error) {
	*l, err = decodeList[Presence](data, maxAgents, "agents")
	return err
}

// encode is json.Marshal without HTML escapes. With them, a message of angle
// brackets would grow to six times its size and exceed the limit of 64 KiB.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// The limits of the fields that a sender sets (docs/protocol.md, "The mesh").
const (
	maxID          = 256 // bytes of an id that is acknowledged
	maxSentID      = 128 // bytes of an id that our mesh takes
	maxKind        = 64  // bytes
	maxCorrelation = 256 // bytes
	maxKeptHops    = 32  // of a message that passed too many agents, and that the operator may release
)

// Malformed returns, in words, why the form of a message is wrong, or "". A foreign or older
// mesh may show messages that our mesh would refuse.
func (m Message) Malformed() string {
	switch {
	case m.ID != "" && !m.CanAck():
		return fmt.Sprintf("its id exceeds %d bytes, or contains a slash or a control character", maxID)
	case len(m.Kind) > maxKind:
		return fmt.Sprintf("its kind exceeds %d bytes", maxKind)
	case len(m.Text) > MaxMessage:
		return fmt.Sprintf("it exceeds %d bytes", MaxMessage)
	case len(m.Hops) > maxKeptHops:
		return fmt.Sprintf("it has more than %d hops", maxKeptHops)
	}
	return m.malformedFields()
}

// malformedFields is Malformed for the fields that our mesh passes on unchanged.
func (m Message) malformedFields() string {
	switch {
	case slices.ContainsFunc(m.Hops, func(h string) bool { return !state.ValidHandle(h) }):
		return "hops contains an invalid handle"
	case len(m.Correlation) > maxCorrelation || strings.ContainsFunc(m.Correlation, unicode.IsControl):
		return fmt.Sprintf("correlation_id exceeds %d bytes, or contains a control character", maxCorrelation)
	case m.Trace != "" && !ValidTrace(m.Trace):
		return "trace_id must have 1 to 128 of the characters A-Z a-z 0-9 . _ ~ : @ + = , -"
	}
	if err := state.CheckResultFields(m.ResultFields); err != nil {
		return "result_fields: " + err.Error()
	}
	if err := CheckFiles(m.Files); err != nil {
		return "files: " + err.Error()
	}
	return m.malformedReport()
}

// malformedReport is Malformed for the fields of a report besides its text.
func (m Message) malformedReport() string {
	switch {
	case m.Status != "" && !m.Status.Valid():
		return "status must be success, failed, canceled, partial or timeout"
	case m.TurnID != "" && !validID(m.TurnID):
		return "turn_id must have 1 to 128 of the characters A-Z a-z 0-9 . _ ~ : @ + = , -"
	case m.AfterExecution != "" && m.AfterExecution != Continue && m.AfterExecution != Suspend && m.AfterExecution != Terminate:
		return "after_execution must be continue, suspend or terminate"
	}
	if err := m.Fields.Check(); err != nil {
		return "fields: " + err.Error()
	}
	return ""
}

// ValidTrace reports whether s can be the id of a chain.
func ValidTrace(s string) bool { return validID(s) }

// CanAck reports whether the id can be acknowledged: it is one segment of a path,
// even for a proxy that decodes it.
func (m Message) CanAck() bool {
	return m.ID != "" && len(m.ID) <= maxID && strings.Trim(m.ID, ".") != "" &&
		!strings.ContainsFunc(m.ID, func(r rune) bool { return r == '/' || r == '\\' || unicode.IsControl(r) })
}

// The limits of the files of a message.
const (
	MaxFiles      = 16
	MaxFile       = 16 << 20 // bytes of one file
	MaxFilesBytes = 32 << 20 // bytes of all files of a message

	maxFileName = 255 // bytes
	maxFileType = 127 // bytes
)

// File is a file that comes with a message. The mesh keeps its bytes under their sum.
type File struct {
	SHA256 string `json:"sha256"` // in lower-case hexadecimal
	Name   string `json:"name"`   // without a folder
	Type   string `json:"type,omitempty"`
	Size   int64  `json:"size"`

	// Missing is set only by the recipient: why it took the message without the file.
	Missing string `json:"missing,omitempty"`
}

// CheckFiles returns an error unless a message can name these files.
func CheckFiles(files []File) error {
	if len(files) > MaxFiles {
		return fmt.Errorf("more than %d files", MaxFiles)
	}
	var total int64
	for _, f := range files {
		switch {
		case !validSum(f.SHA256):
			return fmt.Errorf("the sha256 of a file must be 64 lowercase hexadecimal digits")
		case !ValidFileName(f.Name):
			return fmt.Errorf("a file name must have 1 to %d printable bytes and no slash", maxFileName)
		case !ValidFileType(f.Type):
			return fmt.Errorf("the type of a file must be like text/plain, and have at most %d bytes", maxFileType)
		case f.Size < 0 || f.Size > MaxFile:
			return fmt.Errorf("a file exceeds %d MiB", MaxFile>>20)
		}
		total += f.Size
	}
	if total > MaxFilesBytes {
		return fmt.Errorf("the files exceed %d MiB in total", MaxFilesBytes>>20)
	}
	return nil
}

// validSum reports whether s is a SHA-256 in the form of File.SHA256. It is safe in a path.
func validSum(s string) bool {
	sum, err := hex.DecodeString(s)
	return err == nil && len(sum) == 32 && hex.EncodeToString(sum) == s
}

// ValidFileName reports whether a file can have this name, and whether the name can be shown to
// a person.
func ValidFileName(name string) bool {
	return name != "" && len(name) <= maxFileName && utf8.ValidString(name) && strings.Trim(name, ". ") != "" &&
		!strings.ContainsFunc(name, func(r rune) bool { return r == '/' || r == '\\' || !unicode.IsPrint(r) })
}

// ValidFileType reports whether t is "" or a media type, such as text/plain, without
// parameters.
func ValidFileType(t string) bool {
	if t == "" {
		return true
	}
	parsed, parameters, err := mime.ParseMediaType(t)
	return err == nil && parsed == t && len(parameters) == 0 && len(t) <= maxFileType && strings.Count(t, "/") == 1
}

// Task is the result of a turn, for the observers of a mesh. Its first four members are those
// of the agent's own event (docs/events.md). It contains no part of a message, and no reason,
// because a reason may quote a message.
type Task struct {
	Event  string        `json:"event"` // task.success, …
	ID     string        `json:"id"`    // SERIAL.N of the line in the agent's history
	Agent  string        `json:"agent"` // its handle
	At     time.Time     `json:"at"`    // when the turn ended
	Host   string        `json:"host"`  // where the turn ran; the carrier sets it
	TurnID string        `json:"turn_id"`
	Epoch  uint64        `json:"turn_epoch"`
	Status state.Outcome `json:"status"`
	Began  time.Time     `json:"began,omitzero"` // the start of the last attempt
}

// Announce does nothing: a mesh over HTTP is on one machine.
func (c *Client) Announce(context.Context, Task) error { return nil }
