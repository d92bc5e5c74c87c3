package cycle

import (
	"context"
	"io"
	"time"

	"agentstateloop/mesh"
)

// Carrier carries the messages of one agent on a mesh. It is a *mesh.Client over HTTP,
// on one machine, or a *natsmesh.Client over NATS, between machines. Its methods may be
// called concurrently. Their errors are those of mesh.Client: an *mesh.Error, or a
// *state.CredentialError named "mesh".
type Carrier interface {
	// Address returns the address of the mesh, for people.
	Address() string

	// Take returns our pending messages, for a poll that commits them and then acknowledges
	// them. Messages without an acknowledgement come again, on NATS after a minute.
	Take(ctx context.Context) (mesh.Mailbox, error)

	// Mailbox returns our pending messages, for people. A poll still finds all of them. While
	// the mailbox is empty, Mailbox waits, for a minute at most.
	Mailbox(ctx context.Context, wait time.Duration) (mesh.Mailbox, error)

	// Watch returns as soon as a poll might find something, and after wait at the latest. Its
	// result shows the senders and the HALT; a nudge in it may represent any message.
	Watch(ctx context.Context, wait time.Duration) (mesh.Mailbox, error)

	// Ack acknowledges a committed message. It is not an error if the message is gone already.
	Ack(ctx context.Context, id string) error

	// Send sends a message, and returns its id. It may be repeated with the same id.
	Send(ctx context.Context, m mesh.Message) (id string, err error)
	Nudge(ctx context.Context, handle, from, reason string) error

	Register(ctx context.Context, p mesh.Presence) error

	// Online returns the agents that looked for work lately. Seen also returns the agents that
	// did not, until the mesh forgets them: over NATS after a week, over HTTP at once.
	Online(ctx context.Context) ([]mesh.Presence, error)
	Seen(ctx context.Context) ([]mesh.Presence, error)
	Status(ctx context.Context) (mesh.Status, error)

	// Announce announces the outcome of a turn to those who watch the mesh, once for each t. On
	// a mesh over HTTP it does nothing: such a mesh is on one machine, where `events` shows the
	// same. So the caller need not know which carrier it has.
	Announce(ctx context.Context, t mesh.Task) error

	Halt(ctx context.Context) error
	Go(ctx context.Context) error

	// PutBlob uploads the bytes of a file for an agent, before the message with the file is
	// sent. GetBlob downloads the bytes of a file from an agent.
	PutBlob(ctx context.Context, to, sum string, size int64, content io.Reader) error
	GetBlob(ctx context.Context, from string, f mesh.File, take func(io.Reader) error) error

	// Close ends the connection after sending everything. The next call opens another one.
	Close()
}

// Close waits for pending announcements and ends the agent's connections. The agent can be used
// again.
func (a *Agent) Close() {
	if a.Mesh != nil {
		a.Mesh.announcing.Wait()
		a.Mesh.Carrier.Close()
	}
}
