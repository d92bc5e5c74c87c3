package natsmesh

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

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
	op := mesh.SendOp(m.To)
	m.ID, m.From, m.Kind = cmp.Or(m.ID, rand.Text()), cmp.Or(m.From, c.Handle), cmp.Or(m.Kind, mesh.KindMessage)
	if err := c.checkSend(m); err != nil {
		return "", &mesh.Error{Op: op, Code: http.StatusBadRequest, Err: err}
	}
	body, err := encode(m)
	if err != nil {
		return "", &mesh.Error{Op: op, Code: http.StatusBadRequest, Err: err}
	}
	if len(body) > mesh.MaxMessage {
		return "", tooLarge(op, len(body))
	}
	at := m.SentAt
	if at.IsZero() {
		at = c.now()
	}
	_, err = c.Conn().Post(ctx, m.To, m.ID, at, body, true)
	if e, ok := errors.AsType[*fleet.Error](err); ok && e.Full() {
		e.Err = fullMailbox(m.To, e.Err)
	}
	if err != nil {
		return "", failure(op, err)
	}
	return m.ID, nil
}

func tooLarge(op string, size int) error {
	return &mesh.Error{Op: op, Code: http.StatusRequestEntityTooLarge, Err: fmt.Errorf("the message has %d bytes, and the limit is %d", size, mesh.MaxMessage)}
}

// fullMailbox returns which limit of the mailboxes a message to an agent has met. refusal is the answer of
// the server.
func fullMailbox(to string, refusal error) error {
	limits := fleet.MailboxLimits()
	if strings.Contains(refusal.Error(), "per subject") {
		return fmt.Errorf("the mailbox of %s is full: it holds %d of your messages, which is the limit of each sender; try again after %s has read them", to, limits.PerSubject, to)
	}
	return fmt.Errorf("the servers have no room for a message to %s (%w): the mailboxes of all agents, stream %s, share %d MiB unless the administrator has changed it; try again after agents have read their messages",
		to, refusal, limits.Name, limits.MaxBytes>>20)
}

var errHandle = errors.New("to is not a valid handle: " + state.HandleRule)

// checkSend returns an error if m cannot be sent.
func (c *Client) checkSend(m mesh.Message) error {
	switch {
	case !state.ValidHandle(m.To):
		return errHandle
	case m.From != c.Handle:
		return fmt.Errorf("from must be %s, the owner of the key", c.Handle)
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
		return &mesh.Error{Op: op, Code: http.StatusBadRequest, Err: errHandle}
	case m.From != c.Handle:
		return &mesh.Error{Op: op, Code: http.StatusBadRequest, Err: fmt.Errorf("from must be %s, the owner of the key", c.Handle)}
	}
	body, err := encode(m)
	if err != nil {
		return &mesh.Error{Op: op, Code: http.StatusBadRequest, Err: err}
	}
	if len(body) > mesh.MaxMessage {
		return tooLarge(op, len(body))
	}
	_, err = c.Conn().Post(ctx, handle, m.ID, c.now(), body, false)
	if e, ok := errors.AsType[*fleet.Error](err); ok && e.Full() {
		err = c.Conn().Ring(ctx, handle)
	}
	return failure(op, err)
}

// Announce publishes the result of a turn, signed like a row of the registry, and waits until
// the server has it on disk.
func (c *Client) Announce(ctx context.Context, t mesh.Task) error {
	const op = "announce task"
	t.Host = c.Host
	body, err := json.Marshal(t)
	if err != nil {
		return &mesh.Error{Op: op, Err: err}
	}
	return failure(op, c.Conn().Announce(ctx, t.At, body))
}

// fileOf names a file that an agent sent us.
type fileOf struct{ from, sum string }

func (c *Client) timeout() time.Duration {
	if c.Timeout <= 0 {
		return 30 * time.Second
	}
	return c.Timeout
}

// PutBlob publishes the bytes of a file for an agent, and waits until the server has them on
// disk. The caller may repeat it.
func (c *Client) PutBlob(ctx context.Context, to, sum string, size int64, content io.Reader) error {
	const op = "upload file"
	f := mesh.File{SHA256: sum, Name: "file", Size: size}
	if err := mesh.CheckFiles([]mesh.File{f}); err != nil || !state.ValidHandle(to) {
		return &mesh.Error{Op: op, Code: http.StatusBadRequest, Err: cmp.Or(err, errHandle)}
	}
	err := c.Conn().PutBlob(ctx, to, sum, size, content)
	if e, ok := errors.AsType[*fleet.Error](err); ok && e.Full() {
		limits := fleet.FileLimits()
		e.Err = fmt.Errorf("the servers have no room for a file (%w): the files of all agents, stream %s, share %d MiB unless the administrator has changed it; they are removed when they are read, or after a week",
			e.Err, limits.Name, limits.MaxBytes>>20)
	}
	return failure(op, err)
}

// GetBlob downloads a file of a message from an agent. It calls take once with a reader. At the
// end, the reader returns an error unless the bytes match the message. GetBlob returns the
// error of take unchanged. An *mesh.Error with the code 404 means that the file is gone.
func (c *Client) GetBlob(ctx context.Context, from string, f mesh.File, take func(io.Reader) error) error {
	const op = "download file"
	if err := mesh.CheckFiles([]mesh.File{f}); err != nil || !state.ValidHandle(from) {
		return &mesh.Error{Op: op, Code: http.StatusNotFound, Err: errors.Join(err)}
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout())
	defer cancel()
	blob := c.Conn().OpenBlob(ctx, from, f.SHA256, f.Size)
	meshFault, err := mesh.TakeVerified(f, blob, take)
	if meshFault != nil {
		return failure(op, meshFault)
	}
	if err != nil {
		return err
	}
	c.remember(fileOf{from, f.SHA256}, blob)
	return nil
}

// maxFiles limits the downloaded files that the client remembers for removal.
const maxFiles = 1024

func (c *Client) remember(f fileOf, blob *fleet.Blob) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.files[f] == nil && len(c.files) >= maxFiles {
		clear(c.files) // the server removes the files in a week
	}
	if c.files == nil {
		c.files = map[fileOf]*fleet.Blob{}
	}
	c.files[f] = blob
}

// removeFiles removes the files of an acknowledged message, unless another shown message names
// them. After a failure the files take up room on the server for a week.
func (c *Client) removeFiles(ctx context.Context, h *pending) {
	for _, f := range h.files {
		c.mu.Lock()
		blob := c.files[f]
		needed := false
		for _, other := range c.pending {
			needed = needed || slices.Contains(other.files, f)
		}
		if !needed {
			delete(c.files, f)
		}
		c.mu.Unlock()
		if blob != nil && !needed {
			_ = blob.Remove(ctx, h.items[len(h.items)-1].Stored)
		}
	}
}
