package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// haltGet asks for the HALT of the mesh.
const haltGet = "$JS.API.DIRECT.GET." + MeshStream + "." + haltSubject

// haltValue is what haltSubject holds.
type haltValue struct {
	Halted *bool     `json:"halted"`
	By     string    `json:"by"`
	At     time.Time `json:"at"`
}

var errHalt = errors.New("the HALT of the mesh cannot be read: set it again with mesh halt or mesh resume")

// parseHalt reads the value.
func parseHalt(data []byte) (bool, error) {
	var v haltValue
	if json.Unmarshal(data, &v) != nil || v.Halted == nil {
		return false, errHalt
	}
	return *v.Halted, nil
}

// readHalt reads the answer to haltGet. A server that lags may know an older one than we
// have seen; it is asked again.
func (f *flight) readHalt(a answer) (bool, error) {
	var sequence uint64
	if a.status == 0 {
		var err error
		if sequence, err = strconv.ParseUint(last(a.Header, "Nats-Sequence"), 10, 64); err != nil {
			return false, &Error{Server: f.link.server, Err: errStrange}
		}
	} else if a.status != 404 {
		return false, &Error{Server: f.link.server, Code: a.status, Err: errHalt}
	}
	if f.link.sawHalt(sequence) {
		return false, lostError(f.link.server, 503, errors.New("it lags behind the other servers"))
	}
	if sequence == 0 {
		return false, nil // nobody has ever set it
	}
	halted, err := parseHalt(a.Data)
	if err != nil {
		return false, &Error{Server: f.link.server, Err: err}
	}
	return halted, nil
}

// SetHalt sets or lifts the HALT of the mesh, and waits until the engine has it on disk.
func (c *Conn) SetHalt(ctx context.Context, halted bool, at time.Time) error {
	data, err := json.Marshal(haltValue{Halted: &halted, By: c.Handle, At: at.UTC()})
	if err != nil {
		return err
	}
	var stored *link
	s, err := c.store(ctx, MeshStream, &nats.Msg{Subject: haltSubject, Data: data}, func(f *flight) error {
		stored = f.link
		return nil
	})
	if err == nil {
		stored.sawHalt(s.Sequence)
	}
	return err
}

// sawHalt notes the number of a HALT that this connection has shown, and reports whether
// it is older than one before.
func (l *link) sawHalt(sequence uint64) (stale bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	stale = sequence < l.halt
	l.halt = max(l.halt, sequence)
	return stale
}

// last returns the last value of a header. The engine adds its own headers behind those
// of the sender, which may have the same names.
func last(h nats.Header, name string) string {
	values := h[name]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}
