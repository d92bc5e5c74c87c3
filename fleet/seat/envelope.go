package seat

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"agentstateloop/state/store"
)

// envelope is the content of a head. In its encoding the JSON of the header comes first, in one
// line, then the state and the lines, byte for byte: the sums of the history cover the bytes of
// its lines.
type envelope struct {
	header
	state []byte   // as Store.Commit offers it
	lines [][]byte // of the history, after the last block and before the state
}

// header is the first line of a head.
type header struct {
	Version int    `json:"v"`
	Agent   string `json:"agent"`
	Commit  string `json:"commit"` // random: the only proof of whose head it is
	Term    uint64 `json:"term"`   // rises when the seat changes hosts
	Seat    string `json:"seat"`   // random, of this term: tells the holder from a copy of it
	Host    string `json:"host"`
	Program string `json:"program,omitempty"` // the holder's version of this program

	// Beat rises with each head of a term. Lease is how long the holder may act after it sent the
	// head; 0: the holder has released the seat. To is the host that it was released to, or "".
	Beat  uint64        `json:"beat"`
	Lease time.Duration `json:"lease"`
	To    string        `json:"to,omitempty"`
	Left  bool          `json:"left,omitempty"` // the agent has left the fleet, and lives on Host alone
	At    time.Time     `json:"at"`             // by the clock of the host, for people

	Serial uint64 `json:"serial"` // of the state

	// Blocks is the number of blocks of the history in the servers. BlocksEnd is the last line in
	// them. Series changes if the blocks begin again, in other servers or behind blocks of a lost
	// head. FirstBlock is the number of its first one; 0: 1.
	Blocks     uint64      `json:"blocks,omitempty"`
	BlocksEnd  store.Place `json:"blocks_end,omitzero"`
	Series     string      `json:"series,omitempty"`
	FirstBlock uint64      `json:"first_block,omitempty"`

	Files []file `json:"files,omitempty"`

	IDKey string `json:"id_key,omitempty"` // message-id.key, sealed

	StateSize int `json:"state_size"` // in bytes
	LinesSize int `json:"lines_size"`
}

const (
	headVersion = 1

	// maxHead leaves room for the headers below max_payload of a server, 1 MiB by default.
	maxHead = 1<<20 - 8<<10

	// WarnHead is the size of a head, in bytes, above which doctor warns.
	WarnHead = 256 << 10

	gzipAbove = 4 << 10
	maxPlain  = 64 << 20 // of a head without compression
)

// errNewerHead means that another host runs a newer version of this program.
var errNewerHead = errors.New("the state in the servers was written by a newer agentstateloop: upgrade the program on this host")

// encode returns the bytes of a head.
func (e envelope) encode() ([]byte, error) {
	e.Version, e.StateSize = headVersion, len(e.state)
	e.LinesSize = 0
	for _, l := range e.lines {
		e.LinesSize += len(l)
	}
	head, err := json.Marshal(e.header)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.Grow(len(head) + 1 + e.StateSize + e.LinesSize)
	b.Write(append(head, '\n'))
	b.Write(e.state)
	for _, l := range e.lines {
		b.Write(l)
	}
	if b.Len() <= gzipAbove {
		return b.Bytes(), nil
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if packed.Len() > maxHead {
		return nil, fmt.Errorf("the state has %d KiB compressed, with the names of %d files, and the servers take %d KiB: `agentstateloop inbox` and `agentstateloop outbox` drop messages and their files", packed.Len()>>10, len(e.Files), maxHead>>10)
	}
	return packed.Bytes(), nil
}

// decode reads the bytes of a head.
func decode(body []byte) (envelope, error) {
	if bytes.HasPrefix(body, []byte{0x1f, 0x8b}) {
		r, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return envelope{}, damaged(err)
		}
		if body, err = io.ReadAll(io.LimitReader(r, maxPlain+1)); err != nil {
			return envelope{}, damaged(err)
		}
	}
	head, rest, ok := bytes.Cut(body, []byte("\n"))
	var e envelope
	if !ok {
		return envelope{}, damaged(io.ErrUnexpectedEOF)
	}
	err := json.Unmarshal(head, &e.header)
	if e.Version > headVersion {
		return envelope{}, errNewerHead
	}
	if err != nil {
		return envelope{}, damaged(err)
	}
	if e.StateSize < 0 || e.LinesSize < 0 || e.StateSize+e.LinesSize != len(rest) {
		return envelope{}, damaged(io.ErrUnexpectedEOF)
	}
	e.state, e.lines = rest[:e.StateSize], splitLines(rest[e.StateSize:])
	return e, nil
}

func damaged(err error) error { return fmt.Errorf("the state in the servers is damaged: %w", err) }

// splitLines splits text into lines with their newlines.
func splitLines(text []byte) (lines [][]byte) {
	for len(text) > 0 {
		end := bytes.IndexByte(text, '\n') + 1
		if end == 0 {
			end = len(text)
		}
		lines, text = append(lines, text[:end:end]), text[end:]
	}
	return lines
}
