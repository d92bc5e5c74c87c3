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

// maxIdle is the maximum age of an unused connection. Servers close idle connections.
const maxIdle = 10 * time.Second

// Limits of an answer, in bytes.
const (
	maxAnswer       = 4 << 10
	maxAnswerHeader = 64 << 10
)

// Monitor holds the address that is requested after each poll, and how to request it.
type Monitor struct {
	// Address returns the address. It is called once per Call. Its error must not contain the
	// address.
	Address func(context.Context) (string, error)

	Insecure bool // allows http to other machines too

	Roots *mail.Roots // remembers the system root of the monitor's certificate chain; may be nil

	// Patience limits a request, and separately the connection that is opened ahead of it. 0
	// means 3 s.
	Patience time.Duration

	// TurnPatience limits how long the request of a poll waits for the end of its turns. 0 means
	// a minute.
	TurnPatience time.Duration
}

// Call is a pending request with its connection.
type Call struct {
	url      *url.URL
	insecure bool
	roots    *mail.Roots
	patience time.Duration
	conn     net.Conn // nil after its use
	since    time.Time
}

// Connect reads the address and connects to it, within Patience. The caller must call Send or
// Close on the Call.
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
		return nil, withoutURL(ctx, err, patience)
	}
	c.since = time.Now()
	return c, nil
}

// Close cancels the request.
func (c *Call) Close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// Send makes the request, within Patience. If reason is "", it requests the address itself,
// otherwise the URL that reports a failure. It tries once and follows no redirect. It returns an
// error unless the answer shows that the monitor accepted the request.
func (c *Call) Send(ctx context.Context, reason string) error {
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	to := c.url
	if reason != "" {
		to = failureURL(*c.url, reason)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return ErrNotURL // the text of err would contain the address
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
		return withoutURL(ctx, err, c.patience)
	}
	defer answer.Body.Close()
	return verdict(answer)
}

// transport returns an HTTP transport for a single request.
func (c *Call) transport() *http.Transport {
	return &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxAnswerHeader,
		DialContext: c.take, DialTLSContext: c.take,
	}
}

// take returns the connection that was opened ahead, or a new one if that is used or too old.
func (c *Call) take(ctx context.Context, _, _ string) (net.Conn, error) {
	if c.conn == nil || time.Since(c.since) > maxIdle {
		return c.dial(ctx)
	}
	conn := c.conn
	c.conn = nil
	return conn, nil
}

// dial connects to the host of the address, through TLS unless the scheme is http.
func (c *Call) dial(ctx context.Context) (net.Conn, error) {
	conn, err := c.dialOnce(ctx)
	if c.roots.Doubted(c.url.Hostname(), err) {
		return c.dialOnce(ctx) // now with all system roots
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
		// A name like localhost may resolve to another machine.
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

// verdict returns an error unless the answer shows that the monitor accepted the request.
// healthchecks.io answers 200 even to a request that it ignores.
func verdict(answer *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(answer.Body, maxAnswer)) // a partial text will do
	code := answer.StatusCode
	status := strings.TrimSpace(fmt.Sprintf("%d %s", code, http.StatusText(code))) // the server's own status text may repeat the address
	switch body := strings.TrimSpace(string(text)); {
	case code >= http.StatusMultipleChoices && code < http.StatusBadRequest:
		return fmt.Errorf("the server answered %s, and redirects are not followed", status)
	case code < http.StatusOK || code >= http.StatusMultipleChoices:
		return fmt.Errorf("the server answered %s", status)
	case body == "OK (not found)":
		return errors.New("the monitor does not know this address")
	case body == "OK (rate limited)":
		return errors.New("the monitor received too many requests")
	}
	return nil
}

// withoutURL returns an error of a request without its URL.
func withoutURL(ctx context.Context, err error, patience time.Duration) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %v", patience)
	}
	return err
}
