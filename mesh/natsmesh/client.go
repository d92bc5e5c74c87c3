package natsmesh

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"

	"agentstateloop/internal/secret"
	"agentstateloop/mesh"
)

// Client is one agent's side of the mesh over NATS. It connects at the first call, and
// again at the next one after a failure. The methods may be called concurrently.
//
// Every method returns an *mesh.Error if the engine is down, slow or without quorum,
// within Timeout. It returns a *state.CredentialError named "mesh" if the key cannot be
// read, is refused, or lacks a right.
type Client struct {
	URL    string // of the servers, with commas between them: tls://n1:4222,n2:4222; nats:// on loopback alone
	Handle string // of this agent
	Host   string // this machine, as fleet.HostToken gives it

	// Seed returns the seed of the agent's nkey, SU…. Its error must not contain it.
	Seed func(context.Context) (string, error)

	Keys map[string]string // the public keys of other agents, U…, by handle

	// TLS returns the configuration for a server of this name; nil: that of Go.
	TLS func(host string) (*tls.Config, error)

	Timeout time.Duration // of one call, in addition to its wait; 0: 30 s

	// Dial connects to a server; nil: over TCP.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	Secrets *secret.Known    // what no report of a crash may hold; may be nil
	Now     func() time.Time // nil: time.Now
}

var errUnfinished = errors.New("not built yet")

// Address returns the servers.
func (c *Client) Address() string { return c.URL }

// Take implements cycle.Carrier.
func (c *Client) Take(context.Context) (mesh.Mailbox, error) { return mesh.Mailbox{}, errUnfinished }

// Mailbox implements cycle.Carrier.
func (c *Client) Mailbox(context.Context, time.Duration) (mesh.Mailbox, error) {
	return mesh.Mailbox{}, errUnfinished
}

// Watch implements cycle.Carrier.
func (c *Client) Watch(context.Context, time.Duration) (mesh.Mailbox, error) {
	return mesh.Mailbox{}, errUnfinished
}

// Ack implements cycle.Carrier.
func (c *Client) Ack(context.Context, string) error { return errUnfinished }

// Send implements cycle.Carrier. The time that it signs is m.SentAt, or now.
func (c *Client) Send(context.Context, mesh.Message) (string, error) { return "", errUnfinished }

// Nudge implements cycle.Carrier.
func (c *Client) Nudge(_ context.Context, _, _, _ string) error { return errUnfinished }

// Register implements cycle.Carrier.
func (c *Client) Register(context.Context, mesh.Presence) error { return errUnfinished }

// Online implements cycle.Carrier.
func (c *Client) Online(context.Context) ([]mesh.Presence, error) { return nil, errUnfinished }

// Status implements cycle.Carrier.
func (c *Client) Status(context.Context) (mesh.Status, error) { return mesh.Status{}, errUnfinished }

// Halt implements cycle.Carrier.
func (c *Client) Halt(context.Context) error { return errUnfinished }

// Go implements cycle.Carrier.
func (c *Client) Go(context.Context) error { return errUnfinished }

// PutBlob implements cycle.Carrier.
func (c *Client) PutBlob(_ context.Context, _, _ string, _ int64, _ io.Reader) error {
	return errUnfinished
}

// GetBlob implements cycle.Carrier.
func (c *Client) GetBlob(context.Context, string, mesh.File, func(io.Reader) error) error {
	return errUnfinished
}

// Close implements cycle.Carrier.
func (c *Client) Close() {}
