package natsmesh

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"

	"agentstateloop/fleet"
	"agentstateloop/internal/plain"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// Send signs m, puts it into the mailbox of its recipient and rings the recipient. It returns
// the id once the server has the message on disk. From can only be our handle. The signed time
// is m.SentAt, or now. With an ID and a SentAt, the server recognizes a Send that is repeated
// within an hour; without them, the recipient recognizes it.
func (c *Client) Send(ctx context.Context, m mesh.Message) (id string, err error) {
	const op = "send message"
	m.ID, m.From, m.Kind = cmp.Or(m.ID, rand.Text()), cmp.Or(m.From, c.Handle), cmp.Or(m.Kind, mesh.KindMessage)
	if err := c.checkSend(m); err != nil {
		return "", &mesh.Error{Op: op, Code: http.StatusBadRequest, Err: err}
	}
	body, err := encode(m)
	if err != nil {
		return "", &mesh.Error{Op: op, Code: http.StatusBadRequest, Err: err}
	}
	if len(body) > mesh.MaxMessage {
		return "", &mesh.Error{Op: op, Code: http.StatusRequestEntityTooLarge, Err: fmt.Errorf("the message has %d bytes, and a mesh takes %d", len(body), mesh.MaxMessage)}
	}
	at := m.SentAt
	if at.IsZero() {
		at = c.now()
	}
	_, err = c.engine().Post(ctx, m.To, m.ID, at, body, true)
	if e, ok := errors.AsType[*fleet.Error](err); ok && e.Full() {
		e.Err = fmt.Errorf("the mailbox of %s is full (%w): try again after %s has read it", m.To, e.Err, m.To)
	}
	if err != nil {
		return "", failure(op, err)
	}
	return m.ID, nil
}

// checkSend returns an error if m cannot be sent.
func (c *Client) checkSend(m mesh.Message) error {
	switch {
	case !state.ValidHandle(m.To):
		return errors.New("to is not a valid handle")
	case m.From != c.Handle:
		return fmt.Errorf("from must be %s: this key signs for no other agent", c.Handle)
	}
	if reason := m.Unsendable(); reason != "" {
		return errors.New(reason)
	}
	return nil
}

// encode returns the body of m.
func encode(m mesh.Message) ([]byte, error) {
	body, err := m.Posted()
	if err != nil {
		return nil, errors.New(plain.Line(plain.Cut(err.Error(), 200)))
	}
	return body, nil
}

// Nudge sends a nudge to an agent, and rings the agent. from can only be our handle. If our
// part of the mailbox is full, the ring is enough.
func (c *Client) Nudge(ctx context.Context, handle, from, reason string) error {
	op := "nudge " + plain.Line(plain.Cut(handle, 200))
	m := mesh.Message{ID: fleet.NudgeID(), From: cmp.Or(from, c.Handle), To: handle, Text: reason, Kind: mesh.KindNudge}
	switch {
	case !state.ValidHandle(handle):
		return &mesh.Error{Op: op, Code: http.StatusBadRequest, Err: errors.New("it is not a valid handle")}
	case m.From != c.Handle:
		return &mesh.Error{Op: op, Code: http.StatusBadRequest, Err: fmt.Errorf("from must be %s: this key signs for no other agent", c.Handle)}
	}
	body, err := encode(m)
	if err != nil {
		return &mesh.Error{Op: op, Code: http.StatusBadRequest, Err: err}
	}
	if len(body) > mesh.MaxMessage {
		return &mesh.Error{Op: op, Code: http.StatusRequestEntityTooLarge}
	}
	_, err = c.engine().Post(ctx, handle, m.ID, c.now(), body, false)
	if e, ok := errors.AsType[*fleet.Error](err); ok && e.Full() {
		err = c.engine().Ring(ctx, handle)
	}
	return failure(op, err)
}
