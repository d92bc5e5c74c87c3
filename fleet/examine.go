package fleet

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/nats-io/nkeys"
)

// Examination describes the servers from an agent's point of view. The settings of the streams
// are visible only to the administrator, because they would show who writes to whom.
type Examination struct {
	Servers []ServerSeen // in the order of the url
	Asked   string       // the server that answered the rest; "" without such a server

	Lacks  []string // the rights that the key needs but lacks
	Excess []string // the rights that the key has but should not have
	Tried  int      // how many of the needed rights were tried
	Assets []AssetSeen
	Box    MailboxSeen
	Halted bool
}

// ServerSeen is one server of the url.
type ServerSeen struct {
	Address string // host:port
	Err     error  // why it is not usable, an *Error; if nil, all fields below are known

	Name, Version, Cluster string
	MaxPayload             int64
	Trip                   time.Duration // one round trip

	link *link
}

// MinPayload is how many bytes a server must accept in one message: a chunk of a file.
const MinPayload = blobChunk + headerRoom

// Examine checks each server of the url. On one of them, it also checks the mailbox, the
// streams and the rights of this agent. It stores nothing, takes no message and wakes no agent.
// It returns an error if the key cannot be read, or if the url names no servers.
func (c *Conn) Examine(ctx context.Context) (Examination, error) {
	servers, err := Servers(c.URL)
	if err != nil {
		return Examination{}, &Error{Err: err}
	}
	pair, err := c.key(ctx)
	if err != nil {
		return Examination{}, err
	}
	seen := Examination{Servers: make([]ServerSeen, len(servers))}
	var all sync.WaitGroup
	for i, server := range servers {
		all.Go(c.Secrets.Guarded(func() { seen.Servers[i] = c.see(ctx, server, pair) }))
	}
	all.Wait()
	defer func() {
		for _, s := range seen.Servers {
			if s.link != nil {
				s.link.nc.Close()
			}
		}
	}()
	for _, s := range seen.Servers {
		if s.link != nil {
			c.examine(ctx, s.link, &seen)
			break
		}
	}
	return seen, nil
}

// see connects to one server, and leaves the connection open.
func (c *Conn) see(ctx context.Context, server *url.URL, pair nkeys.KeyPair) ServerSeen {
	seen := ServerSeen{Address: server.Host}
	l, failed := c.dial(ctx, server, pair, time.Now().Add(c.patience()))
	if failed != nil {
		seen.Err = failed
		return seen
	}
	ctx, cancel := context.WithTimeout(ctx, c.patience())
	defer cancel()
	began := time.Now()
	if err := l.nc.FlushWithContext(ctx); err != nil {
		l.nc.Close()
		seen.Err = connError(l.server, err)
		return seen
	}
	seen.Trip = time.Since(began)
	seen.Name, seen.Version, seen.Cluster = l.nc.ConnectedServerName(), l.nc.ConnectedServerVersion(), l.nc.ConnectedClusterName()
	seen.MaxPayload, seen.link = l.nc.MaxPayload(), l
	return seen
}
