package natsmesh

import (
	"context"
	"slices"
	"time"

	"agentstateloop/fleet"
	"agentstateloop/mesh"
)

// held is a message that was shown and is not acknowledged.
type held struct {
	from   string
	proven bool
	items  []fleet.Item // its deliveries: the same message may have been sent twice
	files  []fileOf
	shown  time.Time
}

// heldFor is how long what was shown can be acknowledged. The engine shows it again
// before.
const heldFor = 10 * time.Minute

// Take returns what waits for us, and whether the mesh is halted, in one flight. What is
// not acknowledged comes again after a minute. The registry learns that we looked.
func (c *Client) Take(ctx context.Context) (mesh.Mailbox, error) {
	taken, err := c.engine().Take(ctx, c.Host, c.now(), mesh.MaxMessages, mesh.MaxMailbox)
	if err != nil {
		return mesh.Mailbox{}, failure("read mailbox", err)
	}
	return c.show(ctx, taken)
}

// Mailbox returns what waits for us, and gives it back, so that a poll finds it. While
// there is nothing it waits for somebody to ring.
func (c *Client) Mailbox(ctx context.Context, wait time.Duration) (mesh.Mailbox, error) {
	end := time.Now().Add(longest(wait))
	for {
		box, err := c.peek(ctx)
		left := time.Until(end)
		if err != nil || !box.Empty() || left <= 0 {
			return box, err
		}
		heard, err := c.Watch(ctx, left)
		if err != nil {
			return mesh.Mailbox{}, err
		}
		if !heard.HaltUnproven && heard.Halted != box.Halted {
			end = time.Now()
		}
	}
}

// longest returns how long Mailbox waits at most.
func longest(wait time.Duration) time.Duration { return min(wait, mesh.MaxWait) }

// peek pulls what waits for us and gives it back.
func (c *Client) peek(ctx context.Context) (mesh.Mailbox, error) {
	taken, err := c.engine().Take(ctx, "", c.now(), mesh.MaxMessages, mesh.MaxMailbox)
	if err == nil {
		err = c.engine().Return(ctx, taken.Items...)
	}
	if err != nil {
		return mesh.Mailbox{}, failure("read mailbox", err)
	}
	return c.show(ctx, taken)
}

// show returns what was taken as a mailbox, and remembers how it is acknowledged.
func (c *Client) show(ctx context.Context, taken fleet.Taken) (mesh.Mailbox, error) {
	keys, err := c.keyring(ctx)
	if err != nil {
		return mesh.Mailbox{}, failure("read mailbox", err)
	}
	var box mesh.Mailbox
	box.Halted, box.HaltUnproven = keys.halted(taken.Halt)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pulled = time.Now()
	for id, h := range c.held {
		if c.pulled.Sub(h.shown) > heldFor {
			delete(c.held, id)
		}
	}
	slices.SortStableFunc(taken.Items, func(a, b fleet.Item) int { return a.Stored.Compare(b.Stored) })
	size := 0
	shown := map[string]bool{}
	for _, i := range taken.Items {
		if size += len(i.Body); size > mesh.MaxMailbox || len(shown) == mesh.MaxMessages {
			break // the engine was asked for less
		}
		m, broken := keys.read(i)
		if broken != nil {
			m.ID, m.From = broken.ID, broken.From
		}
		if !c.hold(m, i) || shown[m.ID] {
			continue
		}
		shown[m.ID] = true
		if broken != nil {
			box.Undecoded = append(box.Undecoded, *broken)
		} else {
			box.Messages = append(box.Messages, m)
		}
	}
	return box, nil
}

// hold remembers an item, and reports whether it may be shown: while two senders use one
// id, only the first one's message is, because an id is all that an acknowledgement
// names. The other comes again.
func (c *Client) hold(m mesh.Message, i fleet.Item) bool {
	h := c.held[m.ID]
	switch {
	case h == nil:
		h = &held{from: m.From, proven: m.Proven}
		if c.held == nil {
			c.held = map[string]*held{}
		}
		c.held[m.ID] = h
	case h.from != m.From || h.proven != m.Proven:
		return false
	}
	h.shown = c.pulled
	h.add(i)
	for _, f := range m.Files {
		h.files = append(h.files, fileOf{m.From, f.SHA256})
	}
	return true
}

// add adds a delivery. A newer one of the same message replaces it.
func (h *held) add(i fleet.Item) {
	for n := range h.items {
		if h.items[n].Same(i) {
			h.items[n] = i
			return
		}
	}
	h.items = append(h.items, i)
}

// Ack acknowledges what was shown, and removes its files from the engine. It does not
// wait for an answer: what is not acknowledged comes again and is known. So is an id that
// another process was shown; it is looked for if we have not read our mailbox lately.
func (c *Client) Ack(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	c.mu.Lock()
	known := c.held[id] != nil || time.Since(c.pulled) < time.Minute
	c.mu.Unlock()
	if !known {
		if _, err := c.peek(ctx); err != nil {
			return err
		}
	}
	c.mu.Lock()
	h := c.held[id]
	delete(c.held, id)
	c.mu.Unlock()
	if h == nil {
		return nil
	}
	if err := c.engine().Ack(ctx, h.items...); err != nil {
		return failure("acknowledge message", err)
	}
	c.removeFiles(ctx, h)
	return nil
}
