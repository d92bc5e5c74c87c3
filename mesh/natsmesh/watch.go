package natsmesh

import (
	"context"
	"strings"
	"time"

	"agentstateloop/fleet"
	"agentstateloop/internal/order"
	"agentstateloop/mesh"
)

// Watch waits for a ring or a change of HALT, for wait at most. It takes no message out of our
// mailbox. It shows each ring as a nudge. A nudge from ourselves means that messages are
// already waiting.
func (c *Client) Watch(ctx context.Context, wait time.Duration) (mesh.Mailbox, error) {
	const op = "watch mailbox"
	heard, err := c.Conn().Listen(ctx, wait)
	if err != nil {
		return mesh.Mailbox{}, failure(op, err)
	}
	keys, err := c.keyring(ctx)
	if err != nil {
		return mesh.Mailbox{}, failure(op, err)
	}
	var box mesh.Mailbox
	box.Halted, box.HaltUnproven = keys.halted(heard.Halt)
	if heard.Waiting > 0 {
		box.Messages = append(box.Messages, c.nudge(c.Handle, true))
	}
	judged := map[fleet.Ring]bool{}
	for _, r := range heard.Rings {
		proven, known := judged[r]
		if !known {
			proven = r.SignedBy(keys.of(r.From))
			judged[r] = proven
		}
		box.Messages = append(box.Messages, c.nudge(r.From, proven))
	}
	return box, nil
}

func (c *Client) nudge(from string, proven bool) mesh.Message {
	return mesh.Message{ID: fleet.NudgeID(), From: from, To: c.Handle, Kind: mesh.KindNudge, Proven: proven, SentAt: c.now().UTC()}
}

// pending is an unacknowledged message that was shown.
type pending struct {
	items   []fleet.Item // its deliveries: the same message may have been sent twice
	files   []fileOf
	shownAt time.Time
}

// pendingFor is how long a shown message can be acknowledged. The server shows it again earlier.
const pendingFor = 10 * time.Minute

// Take returns the waiting messages, and whether the mesh is halted, in one round trip. The
// server delivers unacknowledged messages again after a minute. The registry records that we
// looked.
func (c *Client) Take(ctx context.Context) (mesh.Mailbox, error) {
	taken, err := c.Conn().Take(ctx, c.Host, c.now(), mesh.MaxMessages, mesh.MaxMailbox)
	if err != nil {
		return mesh.Mailbox{}, failure("read mailbox", err)
	}
	return c.show(ctx, taken)
}

// Mailbox returns the waiting messages and gives them back, so that a poll finds them. If the
// mailbox is empty, it waits for a ring.
func (c *Client) Mailbox(ctx context.Context, wait time.Duration) (mesh.Mailbox, error) {
	end := time.Now().Add(longest(wait))
	for {
		mailbox, err := c.peek(ctx)
		left := time.Until(end)
		if err != nil || !mailbox.Empty() || left <= 0 {
			return mailbox, err
		}
		change, err := c.Watch(ctx, left)
		if err != nil {
			return mesh.Mailbox{}, err
		}
		if !change.HaltUnproven && change.Halted != mailbox.Halted {
			end = time.Now()
		}
	}
}

// longest limits how long Mailbox waits.
func longest(wait time.Duration) time.Duration { return min(wait, mesh.MaxWait) }

// peek pulls the waiting messages and gives them back.
func (c *Client) peek(ctx context.Context) (mesh.Mailbox, error) {
	taken, err := c.Conn().Take(ctx, "", c.now(), mesh.MaxMessages, mesh.MaxMailbox)
	if err == nil {
		err = c.Conn().Return(ctx, taken.Items...)
	}
	if err != nil {
		return mesh.Mailbox{}, failure("read mailbox", err)
	}
	return c.show(ctx, taken)
}

// show returns the pulled items as a mailbox, and remembers how to acknowledge them.
func (c *Client) show(ctx context.Context, taken fleet.Taken) (mesh.Mailbox, error) {
	keys, err := c.keyring(ctx)
	if err != nil {
		return mesh.Mailbox{}, failure("read mailbox", err)
	}
	var mailbox mesh.Mailbox
	mailbox.Halted, mailbox.HaltUnproven = keys.halted(taken.Halt)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pulledAt = time.Now()
	for id, h := range c.pending {
		if c.pulledAt.Sub(h.shownAt) > pendingFor {
			delete(c.pending, id)
		}
	}
	order.Stable(taken.Items, func(a, b fleet.Item) int { return a.Stored.Compare(b.Stored) })
	size := 0
	ids := map[string]bool{}
	for _, i := range taken.Items {
		if size += len(i.Body); size > mesh.MaxMailbox || len(ids) == mesh.MaxMessages {
			break // the server ignored the limits of the request
		}
		m, undecoded := keys.read(i)
		if undecoded != nil {
			m.AckID = undecoded.ID
		}
		c.addPending(m, i)
		if ids[m.AckID] {
			continue
		}
		ids[m.AckID] = true
		if undecoded != nil {
			mailbox.Undecoded = append(mailbox.Undecoded, *undecoded)
		} else {
			mailbox.Messages = append(mailbox.Messages, m)
		}
	}
	return mailbox, nil
}

// addPending remembers how to acknowledge a message and to remove its files.
func (c *Client) addPending(m mesh.Message, i fleet.Item) {
	h := c.pending[m.AckID]
	if h == nil {
		h = &pending{}
		if c.pending == nil {
			c.pending = map[string]*pending{}
		}
		c.pending[m.AckID] = h
	}
	h.shownAt = c.pulledAt
	h.add(i)
	for _, f := range m.Files {
		h.files = append(h.files, fileOf{m.From, f.SHA256})
	}
}

// add adds a delivery. It replaces an older delivery of the same message.
func (h *pending) add(i fleet.Item) {
	for n := range h.items {
		if h.items[n].Same(i) {
			h.items[n] = i
			return
		}
	}
	h.items = append(h.items, i)
}

// Ack acknowledges a shown message by its AckID, or the messages of all senders with an id, and
// removes their files from the server. It does not wait for an answer: an unacknowledged message
// comes again and is recognized. The message may have been shown to another process: Ack looks for
// it if we have not read our mailbox lately.
func (c *Client) Ack(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	c.mu.Lock()
	known := len(c.named(id)) > 0 || time.Since(c.pulledAt) < time.Minute
	c.mu.Unlock()
	if !known {
		if _, err := c.peek(ctx); err != nil {
			return err
		}
	}
	c.mu.Lock()
	var acked []*pending
	for _, ack := range c.named(id) {
		acked = append(acked, c.pending[ack])
		delete(c.pending, ack)
	}
	c.mu.Unlock()
	for _, h := range acked {
		if err := c.Conn().Ack(ctx, h.items...); err != nil {
			return failure("acknowledge message", err)
		}
		c.removeFiles(ctx, h)
	}
	return nil
}

// named returns the AckIDs of the shown messages with an AckID or an id. The caller must hold mu.
func (c *Client) named(id string) (acks []string) {
	for ack := range c.pending {
		if ack == id || strings.HasSuffix(ack, "/"+id) {
			acks = append(acks, ack)
		}
	}
	return acks
}
