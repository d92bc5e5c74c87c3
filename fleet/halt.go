package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// haltGet is the subject of a request for the HALT of the mesh.
const haltGet = "$JS.API.DIRECT.GET." + MeshStream + "." + haltSubject

// Halt is the last value that was set for the mesh, HALT or GO. Every field except Stored comes
// from its setter, or from a forger.
type Halt struct {
	Unset  bool      // no value was ever set
	Broken bool      // the value cannot be read
	Halted bool      // HALT
	By     string    // the handle of the setter
	At     time.Time // when it was signed
	Stored time.Time // by the server's clock; zero if it was heard before it was stored

	after           uint64 // the number of the value that it follows
	sequence        uint64 // its own number; 0 if it was heard before it was stored
	body, signature string
}

// SignedBy reports whether the key made the signature, and for the value right before this one.
// So a value that is repeated after another one does not count.
func (h Halt) SignedBy(public string) bool {
	return (h.sequence == 0 || h.sequence == h.after+1) && verifies(public, h.signature, haltLine, []byte(h.body))
}

// haltValue is the value on haltSubject. It is signed as it is.
type haltValue struct {
	Halted *bool     `json:"halted"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`
	After  uint64    `json:"after"`
}

// parseHalt reads a value.
func parseHalt(m *nats.Msg) Halt {
	var v haltValue
	if json.Unmarshal(m.Data, &v) != nil || v.Halted == nil {
		return Halt{Broken: true}
	}
	return Halt{Halted: *v.Halted, By: v.By, At: v.At, after: v.After, body: string(m.Data), signature: m.Header.Get(headerSignature)}
}

// readHalt reads the answer to haltGet. A server that lags may return an older value than we
// have seen; the caller asks it again.
func (f *flight) readHalt(a answer) (Halt, error) {
	h := Halt{Unset: true}
	if a.status == 0 {
		h = parseHalt(a.Msg)
		var err error
		if h.sequence, err = strconv.ParseUint(last(a.Header, "Nats-Sequence"), 10, 64); err != nil {
			return Halt{}, &Error{Server: f.link.server, Err: errInvalidAnswer}
		}
		if h.Stored, err = time.Parse(time.RFC3339Nano, last(a.Header, "Nats-Time-Stamp")); err != nil {
			return Halt{}, &Error{Server: f.link.server, Err: errInvalidAnswer}
		}
	} else if a.status != 404 {
		return Halt{}, &Error{Server: f.link.server, Code: a.status, Err: errInvalidAnswer}
	}
	if f.link.noteHalt(h.sequence) {
		return Halt{}, lostError(f.link.server, 503, errors.New("server lags behind the others"))
	}
	return h, nil
}

// errHaltRaced means that others set HALT or GO each time we did.
var errHaltRaced = errors.New("HALT or GO was set by others at the same time: try again")

// SetHalt sets or lifts the HALT of the mesh, and waits until the server has it on disk.
func (c *Conn) SetHalt(ctx context.Context, halted bool, at time.Time) error {
	for range 3 {
		after, err := c.lastHalt(ctx)
		if err != nil {
			return err
		}
		m, err := c.halt(ctx, halted, at, after)
		if err != nil {
			return err
		}
		var stored *link
		s, err := c.store(ctx, MeshStream, m, func(f *flight) error {
			stored = f.link
			return nil
		})
		if err != nil {
			return err
		}
		stored.noteHalt(s.Sequence)
		if s.Sequence == after+1 {
			return nil
		}
	}
	return &Error{Code: 409, Err: errHaltRaced}
}

// halt returns the message that sets HALT or GO after the value with the number after.
func (c *Conn) halt(ctx context.Context, halted bool, at time.Time, after uint64) (*nats.Msg, error) {
	data, err := json.Marshal(haltValue{Halted: &halted, By: c.Handle, At: at.UTC(), After: after})
	if err != nil {
		return nil, err
	}
	sig, err := c.sign(ctx, haltLine, data)
	if err != nil {
		return nil, err
	}
	return &nats.Msg{Subject: haltSubject, Header: nats.Header{headerSignature: {sig}}, Data: data}, nil
}

// lastHalt returns the number of the last value, or 0 if no value was set.
func (c *Conn) lastHalt(ctx context.Context) (sequence uint64, err error) {
	err = c.do(ctx, func(ctx context.Context, l *link) error {
		f, err := l.begin(ctx)
		if err != nil {
			return err
		}
		defer f.end()
		if err := f.ask("halt", haltGet, nil, nil); err != nil {
			return err
		}
		a, err := f.next()
		if err != nil {
			return err
		}
		h, err := f.readHalt(a)
		sequence = h.sequence
		return err
	})
	return sequence, err
}

// noteHalt records the number of a HALT that this connection has shown, and reports whether it
// is older than a previous one.
func (l *link) noteHalt(sequence uint64) (stale bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	stale = sequence < l.halt
	l.halt = max(l.halt, sequence)
	return stale
}

// last returns the last value of a header. The server adds its own headers after those of the
// sender, which may have the same names.
func last(h nats.Header, name string) string {
	values := h[name]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}
