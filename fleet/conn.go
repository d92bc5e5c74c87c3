package fleet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"agentstateloop/internal/order"
	"agentstateloop/internal/secret"
)

// Conn connects to the servers as one user. It connects at the first call, and again at the
// next call after a failure. It does no work in the background. Its methods may be called
// concurrently. Their errors are *Error.
type Conn struct {
	URL    string // of the servers, separated by commas: tls://n1:4222,n2:4222; nats:// only on loopback
	Handle string // of the agent; "" for an administrator, who has all rights

	Version string // of the agent's program, for the rows of its hosts; may be ""

	// Seed returns the seed of the user's key. Its error must not contain the seed.
	Seed func(context.Context) (string, error)

	// TLS returns the configuration for a server of this name; nil means the default of Go. It
	// is called once more if its first configuration did not verify the server's chain.
	TLS func(host string) (*tls.Config, error)

	Timeout time.Duration // of one call, in addition to its wait; 0 means 30 s

	// Dial connects to a server; nil means over TCP.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	Secrets *secret.Known // learns the seed; kept out of crash reports; may be nil

	mu           sync.Mutex
	pair         nkeys.KeyPair // from Seed, until a server refuses it
	link         *link
	dialing      chan struct{} // closed when the call that connects is done
	failedServer string        // the server that failed last
}

const (
	// tryTime is how long a server may be silent before we try another one.
	tryTime = 5 * time.Second

	// queued is how many unread messages a subscription may hold.
	queued = 1024

	firstPause = 50 * time.Millisecond
	maxPause   = time.Second
)

func (c *Conn) timeout() time.Duration {
	if c.Timeout <= 0 {
		return 30 * time.Second
	}
	return c.Timeout
}

// patience is how long one attempt of a call may take.
func (c *Conn) patience() time.Duration { return min(tryTime, c.timeout()/2) }

// Close closes the connection after sending the published messages. The next call connects
// again.
func (c *Conn) Close() {
	c.mu.Lock()
	l := c.link
	c.link = nil
	c.mu.Unlock()
	if l != nil {
		l.nc.Close()
	}
}

// do calls try with a connection until it succeeds, fails permanently, or Timeout is over.
func (c *Conn) do(ctx context.Context, try func(context.Context, *link) error) error {
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, c.timeout())
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		l, err := c.connect(ctx)
		if err != nil {
			return c.callerError(caller, err)
		}
		err = c.attempt(ctx, l, try)
		if err == nil || !lost(err) {
			return c.callerError(caller, err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return c.callerError(caller, err)
		}
	}
}

// callerError returns the reason why the caller gave up, or err if the caller did not.
func (c *Conn) callerError(caller context.Context, err error) error {
	if err != nil && caller.Err() != nil {
		return &Error{Err: context.Cause(caller)}
	}
	return err
}

// attempt calls try once. It drops a connection that was lost, or that brought no answer. The
// next attempt goes to another server, which may still be connected to the rest.
func (c *Conn) attempt(ctx context.Context, l *link, try func(context.Context, *link) error) error {
	return c.attemptFor(ctx, c.patience(), l, try)
}

// attemptFor is attempt with a patience of its own.
func (c *Conn) attemptFor(ctx context.Context, patience time.Duration, l *link, try func(context.Context, *link) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := try(ctx, l)
	if e, ok := errors.AsType[*Error](err); ok && e.Lost && (e.Code == 0 || e.Err == errNoResponder && e.Code == 503) {
		c.drop(l)
	}
	return err
}

// drop closes a connection, so that the next call makes another one, to another server if
// possible.
func (c *Conn) drop(l *link) {
	c.mu.Lock()
	if c.link == l {
		c.link = nil
	}
	c.failedServer = l.server
	c.mu.Unlock()
	l.nc.Close()
}

// connect returns the connection, and makes it if necessary.
func (c *Conn) connect(ctx context.Context) (*link, error) {
	for {
		c.mu.Lock()
		if c.link != nil && !c.link.nc.IsClosed() {
			l := c.link
			c.mu.Unlock()
			return l, nil
		}
		if dialing := c.dialing; dialing != nil {
			c.mu.Unlock()
			select {
			case <-dialing:
				continue
			case <-ctx.Done():
				return nil, lostError("", 0, errors.New("no server answered"))
			}
		}
		done := make(chan struct{})
		c.dialing = done
		c.mu.Unlock()
		l, err := c.dialAny(ctx)
		c.mu.Lock()
		if err == nil {
			c.link = l
		}
		c.dialing = nil
		c.mu.Unlock()
		close(done)
		return l, err
	}
}

// dialAny connects to one of the servers. It tries them in random order, but the server that
// failed last comes last.
func (c *Conn) dialAny(ctx context.Context) (*link, error) {
	servers, err := Servers(c.URL)
	if err != nil {
		return nil, &Error{Err: err}
	}
	pair, err := c.key(ctx)
	if err != nil {
		return nil, err
	}
	rand.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
	c.mu.Lock()
	failedServer := c.failedServer
	c.mu.Unlock()
	order.Stable(servers, func(a, b *url.URL) int {
		return int(boolOrder(a.Host == failedServer)) - int(boolOrder(b.Host == failedServer))
	})
	var reasons []string
	last := &Error{}
	for i, server := range servers {
		end := time.Now().Add(c.patience())
		if deadline, ok := ctx.Deadline(); ok && i < len(servers)-1 {
			if share := time.Now().Add(time.Until(deadline) / time.Duration(len(servers)-i)); share.Before(end) {
				end = share
			}
		}
		l, err := c.dial(ctx, server, pair, end)
		if err == nil {
			return l, nil
		}
		if err.Denied {
			c.forget(pair)
			return nil, err
		}
		last = err
		reasons = append(reasons, err.Error())
		if ctx.Err() != nil {
			break
		}
	}
	if len(reasons) > 1 {
		return nil, &Error{Err: fmt.Errorf("no server is reachable: %s", strings.Join(reasons, "; "))}
	}
	return nil, &Error{Server: last.Server, Err: last.Err}
}

func boolOrder(last bool) (n uint8) {
	if last {
		return 1
	}
	return 0
}

// key returns the key of the user.
func (c *Conn) key(ctx context.Context) (nkeys.KeyPair, error) {
	c.mu.Lock()
	pair := c.pair
	c.mu.Unlock()
	if pair != nil {
		return pair, nil
	}
	if c.Seed == nil {
		return nil, &Error{Denied: true, Err: errors.New("no key is configured")}
	}
	seed, err := c.Seed(ctx)
	if err != nil {
		return nil, &Error{Denied: ctx.Err() == nil, Err: fmt.Errorf("read key: %w", err)}
	}
	seed = strings.TrimSpace(seed)
	c.Secrets.Learn("nkey", seed)
	if pair, err = keyPair(seed); err != nil {
		return nil, &Error{Denied: true, Err: fmt.Errorf("read key: %w", err)}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pair = pair
	return pair, nil
}

// forget drops a refused key. The next call reads the key again.
func (c *Conn) forget(pair nkeys.KeyPair) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pair == pair {
		c.pair = nil
	}
}

// PublicKey returns the public key of the user.
func (c *Conn) PublicKey(ctx context.Context) (string, error) {
	pair, err := c.key(ctx)
	if err != nil {
		return "", err
	}
	return pair.PublicKey()
}

// sign signs a line and the body after it with the key of the user.
func (c *Conn) sign(ctx context.Context, line string, body []byte) (string, error) {
	pair, err := c.key(ctx)
	if err != nil {
		return "", err
	}
	sig, err := signatureOf(pair, line, body)
	if err != nil {
		return "", &Error{Denied: true, Err: errors.New("the key cannot sign")}
	}
	return sig, nil
}

// natsOptions sets the options that all connections share. Each connection goes to one server,
// and we choose the next server ourselves.
func natsOptions(o *nats.Options, patience time.Duration) {
	o.AllowReconnect = false
	o.IgnoreDiscoveredServers = true
	o.SkipHostLookup = true     // the dialer resolves names, within its time limit
	o.FlusherTimeout = patience // for one write to a server that does not read
	o.Name = "agentstateloop"
}
