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
	// Address returns where the mesh is, for people.
	Address() string

	// Take returns what waits for us, for a poll that commits it and acknowledges it
	// then. What is not acknowledged comes again, on NATS after a minute.
	Take(ctx context.Context) (mesh.Mailbox, error)

	// Mailbox returns what waits for us, for people. A poll still finds all of it.
	// While it is empty, Mailbox waits, for a minute at most.
	Mailbox(ctx context.Context, wait time.Duration) (mesh.Mailbox, error)

	// Watch returns as soon as a poll might find something, and after wait at the
	// latest. What it returns says who sent it and what is halted; a nudge in it may
	// stand for any message.
	Watch(ctx context.Context, wait time.Duration) (mesh.Mailbox, error)

	// Ack acknowledges what is committed. It is not an error if it is gone already.
	Ack(ctx context.Context, id string) error

	// Send sends a message, and returns its id. It may be repeated with the same id.
	Send(ctx context.Context, m mesh.Message) (id string, err error)
	Nudge(ctx context.Context, handle, from, reason string) error

	Register(ctx context.Context, p mesh.Presence) error

	// Online returns the agents that looked for work lately. Seen returns those as well
	// that did not, and are not forgotten: over NATS for a week, over HTTP none.
	Online(ctx context.Context) ([]mesh.Presence, error)
	Seen(ctx context.Context) ([]mesh.Presence, error)
	Status(ctx context.Context) (mesh.Status, error)

	// Announce tells those who watch the mesh what a turn has come to, once for each t. A
	// mesh over HTTP has nobody who watches: it is on one machine, where `events` shows the
	// same, and its client does nothing. So the caller need not know which carrier it has.
	Announce(ctx context.Context, t mesh.Task) error

	Halt(ctx context.Context) error
	Go(ctx context.Context) error

	// PutBlob uploads the bytes of a file of a message to an agent, before the message
	// is sent. GetBlob downloads those of a message from an agent.
	PutBlob(ctx context.Context, to, sum string, size int64, content io.Reader) error
	GetBlob(ctx context.Context, from string, f mesh.File, take func(io.Reader) error) error

	// Close ends the connection, after all that was sent. The next call makes another one.
	Close()
}

// Close ends the connections that the agent keeps, after what is being announced. It can
// be used again.
func (a *Agent) Close() {
	if a.Mesh != nil {
		a.Mesh.announcing.Wait()
		a.Mesh.Carrier.Close()
	}
}
