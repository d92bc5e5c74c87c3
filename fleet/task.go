package fleet

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
)

// Announce puts the result of one of our turns into the stream of events, and waits until the
// server has it on disk. The server recognizes a repeat with the same time and body for an
// hour.
func (c *Conn) Announce(ctx context.Context, at time.Time, body []byte) error {
	signed := at.UTC().Format(timeLayout)
	sig, err := c.sign(ctx, taskLine(c.Handle, signed), body)
	if err != nil {
		return err
	}
	header := nats.Header{headerAt: {signed}, headerSignature: {sig}, "Nats-Msg-Id": {sig[:22]}}
	_, err = c.store(ctx, EventStream, &nats.Msg{Subject: taskSubject(c.Handle), Header: header, Data: body}, nil)
	return err
}
