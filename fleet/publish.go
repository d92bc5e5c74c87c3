package fleet

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"

	"agentstateloop/internal/plain"
)

// Stored is the place of a published message on the server.
type Stored struct {
	Stream    string `json:"stream"`
	Sequence  uint64 `json:"seq"`
	Duplicate bool   `json:"duplicate"` // it was already stored
}

// refusal returns the error for an error answer of JetStream.
func (l *link) refusal(e apiError) error {
	err := &Error{Server: l.server, Code: e.Code, Number: e.Number, Err: errors.New(plain.Line(plain.Cut(e.Text, 200)))}
	const temporarilyUnavailable, duplicateInProcess = 10163, 10158
	// After 503 and the two others, it is unknown whether the message is stored.
	err.lost = e.Code == 503 && !err.Full() || e.Number == temporarilyUnavailable || e.Number == duplicateInProcess
	if err.lost {
		err.Code = 503 // a repeat in progress gets a 409, which would end the retries of an outbox
	}
	return err
}

// stored reads the acknowledgement of a stream.
func (f *flight) stored(a answer, stream string) (Stored, error) {
	var s Stored
	if err := f.decode(a, &s); err != nil {
		return Stored{}, err
	}
	if s.Stream != stream || s.Sequence == 0 {
		return Stored{}, &Error{Server: f.link.server, Err: errStrange}
	}
	return s, nil
}

// store publishes a message, and waits until the stream has it on disk. If then is not nil, it
// may publish more messages, and store does not wait for them.
func (c *Conn) store(ctx context.Context, stream string, m *nats.Msg, then func(*flight) error) (s Stored, err error) {
	err = c.do(ctx, func(ctx context.Context, l *link) error {
		f, err := l.begin(ctx)
		if err != nil {
			return err
		}
		defer f.end()
		if err := f.ask("stored", m.Subject, m.Header, m.Data); err != nil {
			return err
		}
		a, err := f.next()
		if err != nil {
			return err
		}
		if s, err = f.stored(a, stream); err == nil && then != nil {
			err = then(f)
		}
		return err
	})
	return s, err
}

// Answer is the answer of a server to a raw request.
type Answer struct {
	Server string // the server that answered
	Header map[string][]string
	Data   []byte
}

// Request publishes a request, once, and returns its answer without judging it.
func (c *Conn) Request(ctx context.Context, subject string, data []byte, header map[string][]string) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout())
	defer cancel()
	l, err := c.connect(ctx)
	if err != nil {
		return Answer{}, err
	}
	var answered Answer
	err = c.attempt(ctx, l, func(ctx context.Context, l *link) error {
		f, err := l.begin(ctx)
		if err != nil {
			return err
		}
		defer f.end()
		if err := f.ask("answer", subject, header, data); err != nil {
			return err
		}
		a, err := f.next()
		if err != nil {
			return err
		}
		answered = Answer{Server: l.server, Header: a.Header, Data: a.Data}
		return nil
	})
	return answered, err
}
