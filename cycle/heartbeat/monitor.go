package heartbeat

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"agentstateloop/mail"
)

// Patience is the default of Monitor.Patience.
const Patience = 3 * time.Second

// fresh is how long a connection may wait for its request. Servers end one that says
// nothing for long.
const fresh = 10 * time.Second

// What is read of an answer, in bytes.
const (
	maxAnswer       = 4 << 10
	maxAnswerHeader = 64 << 10
)

// Monitor is the address that is asked after each poll.
type Monitor struct {
	// Address returns the address. It is called once for each Call. Its error must not
	// contain it.
	Address func(context.Context) (string, error)

	Insecure bool // http is allowed to other machines too

	Roots *mail.Roots // remembers which root of the system ended the monitor's chain; may be nil

	// Patience is how long a request may take, and how long connecting ahead of it may. 0: 3 s.
	Patience time.Duration

	// TurnPatience is how long the request of a poll waits for the end of its turns. 0: a
	// minute.
	TurnPatience time.Duration
}

// Call is one request that is not made yet, with the connection for it.
type Call struct {
	url      *url.URL
	insecure bool
	roots    *mail.Roots
	patience time.Duration
	conn     net.Conn // nil: it was used, or is too old
	since    time.Time
}

// Connect reads the address and connects to it, within Patience. The caller ends the
// Call by Send or Close.
func (m *Monitor) Connect(ctx context.Context) (*Call, error) {
	patience := cmp.Or(m.Patience, Patience)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	address, err := m.Address(ctx)
	if err != nil {
		return nil, fmt.Errorf("its address cannot be read: %w", err)
	}
	u, err := parse(address, m.Insecure)
	if err != nil {
		return nil, fmt.Errorf("its address %w", err)
	}
	c := &Call{url: u, insecure: m.Insecure, roots: m.Roots, patience: patience}
	if c.conn, err = c.dial(ctx); err != nil {
		return nil, worded(ctx, err, patience)
	}
	c.since = time.Now()
	return c, nil
}

// Close gives the request up.
func (c *Call) Close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// Send makes the request, within Patience: of the address itself if reason is "", or of
// the place where a failure is reported. It is made once, and no redirect is followed.
// It is an error unless the answer shows that the monitor took it.
func (c *Call) Send(ctx context.Context, reason string) error {
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	to := c.url
	if reason != "" {
		to = failing(*c.url, reason)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return ErrNotURL // its own text would hold the address
	}
	request.Header.Set("User-Agent", "agentStateLoop")
	transport := c.transport()
	defer transport.CloseIdleConnections()
	client := &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(request)
	if err != nil {
		return worded(ctx, err, c.patience)
	}
	defer answer.Body.Close()
	return verdict(answer)
}

// transport returns the client's way to the monitor, for one request.
func (c *Call) transport() *http.Transport {
	return &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxAnswerHeader,
		DialContext: c.take, DialTLSContext: c.take,
	}
}

// take returns the connection that was made ahead, or another one if that is too old.
func (c *Call) take(ctx context.Context, _, _ string) (net.Conn, error) {
	if c.conn == nil || time.Since(c.since) > fresh {
		return c.dial(ctx)
	}
	conn := c.conn
	c.conn = nil
	return conn, nil
}

// dial connects to the host of the address, by TLS unless it is http.
func (c *Call) dial(ctx context.Context) (net.Conn, error) {
	conn, err := c.dialOnce(ctx)
	if c.roots.Doubted(c.url.Hostname(), err) {
		return c.dialOnce(ctx) // for all roots of the system
	}
	return conn, err
}

func (c *Call) dialOnce(ctx context.Context) (net.Conn, error) {
	port := c.url.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[c.url.Scheme]
	}
	host := c.url.Hostname()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, err
	}
	if c.url.Scheme == "http" {
		// A name like localhost may have been pointed elsewhere.
		if to, ok := conn.RemoteAddr().(*net.TCPAddr); !c.insecure && (!ok || !to.IP.IsLoopback()) {
			conn.Close()
			return nil, fmt.Errorf("its address %w", ErrUnencrypted)
		}
		return conn, nil
	}
	secured := tls.Client(conn, c.roots.Config(host))
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secured, nil
}

// verdict returns why an answer does not show that the monitor took the request.
// healthchecks.io answers 200 also to what it does not take.
func verdict(answer *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswer)) // a part is as good
	code := answer.StatusCode
	status := strings.TrimSpace(fmt.Sprintf("%d %s", code, http.StatusText(code))) // the server's own text may repeat the address
	switch said := strings.TrimSpace(string(text)); {
	case code >= http.StatusMultipleChoices && code < http.StatusBadRequest:
		return fmt.Errorf("the server answered %s, and redirects are not followed", status)
	case code < http.StatusOK || code >= http.StatusMultipleChoices:
		return fmt.Errorf("the server answered %s", status)
	case said == "OK (not found)":
		return errors.New("the monitor does not know this address")
	case said == "OK (rate limited)":
		return errors.New("the monitor was asked too often")
	}
	return nil
}

// worded returns an error of a request without its URL.
func worded(ctx context.Context, err error, patience time.Duration) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %v", patience)
	}
	return err
}
