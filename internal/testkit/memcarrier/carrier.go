package memcarrier

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"agentstateloop/fleet"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// Carrier is one process of an agent on a mesh in memory. It implements cycle.Carrier.
type Carrier struct {
	Mesh         *Mesh
	Handle, Host string

	// Hook makes a call of the mesh by calling do. A hook that does not call do loses the request,
	// one that returns another error loses the answer, one that calls do twice repeats the
	// request. nil calls do once.
	Hook func(c Call, do func() error) error

	// The mutex of the mesh guards these.
	held   map[string][]*letter // shown messages without an acknowledgement, by AckID
	looked time.Time            // when the mailbox was last read
}

// Call is a call of the mesh.
type Call struct {
	Name    string        // take, mailbox, watch, ack, send, nudge, register, seen, status, announce, halt, put or get
	Message mesh.Message  // of send and nudge, with the time that is signed
	ID      string        // of ack
	Box     *mesh.Mailbox // the answer to take; a hook may change it
}

// call locks the mesh for do, and lets the hook call it.
func (c *Carrier) call(call Call, do func(m *Mesh) error) error {
	locked := func() error {
		c.Mesh.mu.Lock()
		defer c.Mesh.mu.Unlock()
		return do(c.Mesh)
	}
	if c.Hook == nil {
		return locked()
	}
	return c.Hook(call, locked)
}

// Address returns a url for people.
func (c *Carrier) Address() string { return "memory:" }

// Close forgets the messages that this process was shown.
func (c *Carrier) Close() {
	c.Mesh.mu.Lock()
	defer c.Mesh.mu.Unlock()
	c.held, c.looked = nil, time.Time{}
}

// Take returns the messages that wait. A message that is not acknowledged comes again after a
// minute.
func (c *Carrier) Take(context.Context) (box mesh.Mailbox, err error) {
	err = c.call(Call{Name: "take", Box: &box}, func(m *Mesh) error {
		m.looked(c.Handle)
		box = c.show(true)
		return nil
	})
	return box, err
}

// Mailbox returns the messages that wait, and leaves them for a poll. While there are none it
// waits for one.
func (c *Carrier) Mailbox(ctx context.Context, wait time.Duration) (box mesh.Mailbox, err error) {
	if _, err := c.Watch(ctx, min(wait, mesh.MaxWait)); err != nil {
		return mesh.Mailbox{}, err
	}
	err = c.call(Call{Name: "mailbox"}, func(*Mesh) error {
		box = c.show(false)
		return nil
	})
	return box, err
}

// show returns the messages that wait, and takes them for a poll.
func (c *Carrier) show(take bool) mesh.Mailbox {
	box, now, size, shown := c.Mesh.halt, c.Mesh.now(), 0, map[string]bool{}
	c.looked = now
	if c.held == nil {
		c.held = map[string][]*letter{}
	}
	for _, l := range c.Mesh.boxes[c.Handle] {
		if !l.taken.IsZero() && now.Sub(l.taken) < ackWait {
			continue
		}
		if size += len(l.Body); size > mesh.MaxMailbox || len(shown) == mesh.MaxMessages {
			break
		}
		if take {
			l.taken = now
		}
		id := l.message.AckID
		if !slices.Contains(c.held[id], l) {
			c.held[id] = append(c.held[id], l)
		}
		switch {
		case shown[id]:
		case l.broken != "":
			box.Undecoded = append(box.Undecoded, mesh.Undecoded{Raw: l.Body, ID: id, From: l.From, Reason: l.broken})
		default:
			box.Messages = append(box.Messages, l.message)
		}
		shown[id] = true
	}
	return box
}

// Ack removes a shown message with an AckID, or those with an id, and their files. If this process
// was not shown the message and has not read the mailbox within a minute, it looks there.
func (c *Carrier) Ack(_ context.Context, id string) error {
	return c.call(Call{Name: "ack", ID: id}, func(m *Mesh) error {
		named := func(ack string) bool { return ack == id || strings.HasSuffix(ack, "/"+id) }
		if !slices.ContainsFunc(slices.Collect(maps.Keys(c.held)), named) && (c.looked.IsZero() || m.now().Sub(c.looked) >= time.Minute) {
			c.show(false)
		}
		var acked []*letter
		for ack, held := range c.held {
			if named(ack) {
				acked = append(acked, held...)
				delete(c.held, ack)
			}
		}
		m.boxes[c.Handle] = slices.DeleteFunc(m.boxes[c.Handle], func(l *letter) bool { return slices.Contains(acked, l) })
		for _, l := range acked {
			m.removeFiles(l)
		}
		return nil
	})
}

// removeFiles removes the files of a letter, unless they were uploaded again or another letter
// names them.
func (m *Mesh) removeFiles(l *letter) {
	for _, f := range l.message.Files {
		key := fileKey{l.To, l.From, f.SHA256}
		needed := m.files[key].stored.After(l.stored) || slices.ContainsFunc(m.boxes[l.To], func(other *letter) bool {
			return other.From == l.From && bytes.Contains(other.Body, []byte(f.SHA256))
		})
		if !needed {
			delete(m.files, key)
		}
	}
}

// Send puts a message into the mailbox of its recipient and rings there.
func (c *Carrier) Send(_ context.Context, message mesh.Message) (id string, err error) {
	message.ID, message.From, message.Kind = cmp.Or(message.ID, rand.Text()), cmp.Or(message.From, c.Handle), cmp.Or(message.Kind, mesh.KindMessage)
	if reason := message.Unsendable(); reason != "" {
		return "", refused(mesh.SendOp(message.To), http.StatusBadRequest, reason)
	}
	return message.ID, c.post("send", message)
}

// Nudge puts a nudge into the mailbox of an agent, if there is room, and rings there.
func (c *Carrier) Nudge(_ context.Context, handle, from, reason string) error {
	return c.post("nudge", mesh.Message{ID: fleet.NudgeID(), From: cmp.Or(from, c.Handle), To: handle, Text: reason, Kind: mesh.KindNudge})
}

func (c *Carrier) post(call string, message mesh.Message) error {
	body, err := message.Posted()
	switch {
	case err != nil, !state.ValidHandle(message.To), message.From != c.Handle:
		return refused(call, http.StatusBadRequest, "the sender, the recipient or the content is not valid")
	case len(body) > mesh.MaxMessage:
		return refused(call, http.StatusRequestEntityTooLarge, "the message is too large")
	}
	if message.SentAt.IsZero() {
		message.SentAt = c.Mesh.now()
	}
	return c.call(Call{Name: call, Message: message}, func(m *Mesh) error {
		_, err := m.put(Letter{To: message.To, From: c.Handle, ID: message.ID, At: message.SentAt, Body: body, Proven: true, Once: message.Kind != mesh.KindNudge})
		if err != nil && message.Kind != mesh.KindNudge {
			return err
		}
		m.ring()
		return nil
	})
}

func refused(op string, code int, reason string) error {
	return &mesh.Error{Op: op, Code: code, Err: errors.New(reason)}
}

// Watch waits until messages wait or HALT changes. A nudge of our own represents the messages.
func (c *Carrier) Watch(ctx context.Context, wait time.Duration) (box mesh.Mailbox, err error) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for first, over := true, wait <= 0; ; first = false {
		var changed chan struct{}
		before := box.Halted
		err := c.call(Call{Name: "watch"}, func(m *Mesh) error {
			box, changed = m.halt, m.changed
			if len(m.boxes[c.Handle]) > 0 {
				box.Messages = []mesh.Message{{ID: fleet.NudgeID(), From: c.Handle, To: c.Handle, Kind: mesh.KindNudge, Proven: true, SentAt: m.now().UTC()}}
			}
			return nil
		})
		if err != nil || over || !box.Empty() || !first && box.Halted != before {
			return box, err
		}
		select {
		case <-changed:
		case <-timer.C:
			over = true
		case <-ctx.Done():
			return box, &mesh.Error{Op: "watch mailbox", Err: context.Cause(ctx)}
		}
	}
}

// Register publishes the presence of the agent.
func (c *Carrier) Register(_ context.Context, p mesh.Presence) error {
	return c.call(Call{Name: "register"}, func(m *Mesh) error {
		p.Handle, p.Callsign, p.Host, p.Wake, p.SeenAt = c.Handle, cmp.Or(p.Callsign, "@"+c.Handle), c.Host, "", m.now()
		m.rows[c.Handle] = p
		return nil
	})
}

// Online returns the agents that looked for work within the last 35 minutes.
func (c *Carrier) Online(ctx context.Context) ([]mesh.Presence, error) {
	seen, err := c.Seen(ctx)
	return online(seen), err
}

// Seen returns the agents that ever looked for work.
func (c *Carrier) Seen(context.Context) (seen []mesh.Presence, err error) {
	err = c.call(Call{Name: "seen"}, func(m *Mesh) error {
		seen = m.seen()
		return nil
	})
	return seen, err
}

// Hosts returns the host of the agent, and no other one.
func (c *Carrier) Hosts(context.Context) (here string, others []mesh.HostSeen, err error) {
	return c.Host, nil, c.call(Call{Name: "hosts"}, func(*Mesh) error { return nil })
}

// Status returns the health of the mesh, and the messages that wait for the agent.
func (c *Carrier) Status(context.Context) (s mesh.Status, err error) {
	err = c.call(Call{Name: "status"}, func(m *Mesh) error {
		m.looked(c.Handle)
		s = mesh.Status{Halted: m.halt.Halted, Online: len(online(m.seen())), Waiting: len(m.boxes[c.Handle]), Date: m.now()}
		return nil
	})
	return s, err
}

// Announce stores the end of a turn, once for equal tasks within an hour.
func (c *Carrier) Announce(_ context.Context, t mesh.Task) error {
	t.Host = c.Host
	return c.call(Call{Name: "announce"}, func(m *Mesh) error {
		if key := digest("task", fmt.Sprint(t)); !m.known(key) {
			m.repeats[key] = m.now()
			m.tasks = append(m.tasks, Task{t, m.now()})
		}
		return nil
	})
}

// Halt sets the HALT of the mesh.
func (c *Carrier) Halt(context.Context) error { return c.setHalt(true) }

// Go lifts the HALT of the mesh.
func (c *Carrier) Go(context.Context) error { return c.setHalt(false) }

func (c *Carrier) setHalt(on bool) error {
	return c.call(Call{Name: "halt"}, func(m *Mesh) error {
		m.setHalt(on, true)
		return nil
	})
}

// PutBlob stores a file for an agent.
func (c *Carrier) PutBlob(_ context.Context, to, sum string, size int64, content io.Reader) error {
	data := make([]byte, size)
	if _, err := io.ReadFull(content, data); err != nil {
		return &mesh.Error{Op: "upload file", Err: err}
	}
	return c.call(Call{Name: "put"}, func(m *Mesh) error {
		m.files[fileKey{to, c.Handle, sum}] = file{data, m.now()}
		return nil
	})
}

// GetBlob reads a file of a message from an agent. The code of its error is 404 if the file is
// gone.
func (c *Carrier) GetBlob(_ context.Context, from string, f mesh.File, take func(io.Reader) error) error {
	const op = "download file"
	var found file
	err := c.call(Call{Name: "get"}, func(m *Mesh) (err error) {
		var known bool
		if found, known = m.files[fileKey{c.Handle, from, f.SHA256}]; !known {
			err = refused(op, http.StatusNotFound, "the file is gone")
		}
		return err
	})
	if err != nil {
		return err
	}
	fault, err := mesh.TakeVerified(f, bytes.NewReader(found.content), take)
	if fault != nil {
		return &mesh.Error{Op: op, Err: fault}
	}
	return err
}
