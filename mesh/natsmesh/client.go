package natsmesh

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"agentstateloop/fleet"
	"agentstateloop/internal/secret"
	"agentstateloop/mesh"
	"agentstateloop/state"
)

// Client is one agent's side of the mesh over NATS. It connects at the first call, and again at
// the next call after a failure. The methods may be called concurrently.
//
// Every method returns an *mesh.Error, within Timeout, if the server is down, slow or without
// quorum. It returns a *state.CredentialError named "mesh" if the key cannot be read, is
// refused, or lacks a right.
type Client struct {
	URL    string // of the servers, separated by commas: tls://n1:4222,n2:4222; nats:// only on loopback
	Handle string // of this agent
	Host   string // this machine, from fleet.HostToken

	Version string // of this program, for the row of this host; may be ""

	// Seed returns the seed of the agent's nkey, SU…. Its error must not contain the seed.
	Seed func(context.Context) (string, error)

	Keys map[string]string // the public keys of other agents, U…, by handle

	// TLS returns the configuration for a server of this name; nil means the default of Go.
	TLS func(host string) (*tls.Config, error)

	Timeout time.Duration // of one call, in addition to its wait; 0 means 30 s

	// Dial connects to a server; nil means over TCP.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	Secrets *secret.Known    // kept out of crash reports; may be nil
	Now     func() time.Time // nil: time.Now

	mu       sync.Mutex
	conn     *fleet.Conn
	pending  map[string]*pending // unacknowledged messages that were shown, by AckID
	pulledAt time.Time           // when our mailbox was last read
	files    map[fileOf]*fleet.Blob
}

// Address returns the URLs of the servers.
func (c *Client) Address() string { return c.URL }

// Close closes the connection. The next call makes another one.
func (c *Client) Close() { c.Conn().Close() }

// Conn returns the connection to the servers, which may not be open yet.
func (c *Client) Conn() *fleet.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == nil {
		c.conn = &fleet.Conn{
			URL: c.URL, Handle: c.Handle, Seed: c.Seed, TLS: c.TLS, Timeout: c.Timeout, Dial: c.Dial, Secrets: c.Secrets,
			Version: c.Version,
		}
	}
	return c.conn
}

func (c *Client) now() time.Time {
	if c.Now == nil {
		return time.Now()
	}
	return c.Now()
}

// Halt sets the HALT of the mesh, for all its agents.
func (c *Client) Halt(ctx context.Context) error {
	return failure("halt", c.Conn().SetHalt(ctx, true, c.now()))
}

// Go lifts the HALT of the mesh.
func (c *Client) Go(ctx context.Context) error {
	return failure("resume", c.Conn().SetHalt(ctx, false, c.now()))
}

// Examine checks each server. On one of them it also checks the mailbox, the streams and the
// rights of this agent. It stores nothing, and takes no message.
func (c *Client) Examine(ctx context.Context) (fleet.Examination, error) {
	seen, err := c.Conn().Examine(ctx)
	return seen, failure("examine", err)
}

// failure turns an error of package fleet into an error of package mesh.
func failure(op string, err error) error {
	if err == nil {
		return nil
	}
	e, ok := errors.AsType[*fleet.Error](err)
	if !ok {
		return &mesh.Error{Op: op, Err: err}
	}
	failed := &mesh.Error{Op: op, Code: e.Code, Err: e}
	switch {
	case e.Denied:
		return &state.CredentialError{Name: state.CredentialMesh, Err: failed}
	case e.Full():
		failed.Code, failed.RetryAfter = http.StatusServiceUnavailable, time.Minute
	}
	return failed
}
