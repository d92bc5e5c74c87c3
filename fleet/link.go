package fleet

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
)

// link is one connection to one server.
type link struct {
	nc     *nats.Conn
	server string
	prefix string // of the subjects for our answers

	lost chan struct{} // closed when broken is set

	mu      sync.Mutex
	flights map[*flight]bool
	broken  error

	refused chan<- string // receives permission errors; nil: they end the calls that they concern

	halt uint64 // the newest HALT that this connection has shown
	bell *bell  // a subscription to the doorbell and HALT; nil until a call listens
}

// dial connects to one server before the time end.
func (c *Conn) dial(ctx context.Context, server *url.URL, pair nkeys.KeyPair, end time.Time) (*link, *Error) {
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	prefix := "_INBOX"
	if c.Handle != "" {
		prefix = inboxPrefix(c.Handle)
	}
	l := &link{server: server.Host, prefix: prefix + "." + rand.Text() + ".", lost: make(chan struct{}), flights: map[*flight]bool{}}
	o := nats.GetDefaultOptions()
	natsOptions(&o, c.patience())
	o.Url = server.String()
	o.Timeout = max(time.Until(end), time.Millisecond)
	public, err := pair.PublicKey()
	if err != nil {
		return nil, &Error{Denied: true, Err: err}
	}
	o.Nkey, o.SignatureCB = public, pair.Sign
	var dialErr error
	stop := func() bool { return true }
	o.CustomDialer = dialerFunc(func(network, addr string) (net.Conn, error) {
		conn, err := c.dialTCP(ctx, server, network, addr)
		if err == nil {
			stop = context.AfterFunc(ctx, func() { conn.Close() })
		}
		dialErr = err
		return conn, err
	})
	o.AsyncErrorCB = func(_ *nats.Conn, _ *nats.Subscription, err error) { c.Secrets.Guarded(func() { l.failed(err) })() }
	o.ClosedCB = func(nc *nats.Conn) { c.Secrets.Guarded(func() { l.end(nc.LastError()) })() }
	if err := c.secure(&o, server); err != nil {
		return nil, &Error{Server: server.Host, Err: err}
	}
	nc, err := o.Connect()
	if isA[*tls.CertificateVerificationError](err) && c.secure(&o, server) == nil {
		stop()
		nc, err = o.Connect() // TLS may trust more roots now
	}
	if !stop() && err == nil {
		nc.Close()
		err = context.DeadlineExceeded
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, connError(server.Host, context.DeadlineExceeded)
	case err != nil && dialErr != nil:
		return nil, connError(server.Host, dialErr)
	case err != nil:
		return nil, connError(server.Host, err)
	}
	l.nc = nc
	return l, nil
}

type dialerFunc func(network, addr string) (net.Conn, error)

// Dial implements nats.CustomDialer.
func (d dialerFunc) Dial(network, addr string) (net.Conn, error) { return d(network, addr) }

func (c *Conn) dialTCP(ctx context.Context, server *url.URL, network, addr string) (net.Conn, error) {
	if c.Dial != nil {
		return c.Dial(ctx, network, addr)
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	// A name like localhost may point elsewhere.
	if a, ok := conn.RemoteAddr().(*net.TCPAddr); server.Scheme == "nats" && (!ok || !a.IP.IsLoopback()) {
		conn.Close()
		return nil, errors.New("nats:// is only for servers on this machine: use tls://")
	}
	return conn, nil
}

// secure turns on TLS for a connection to server, if its scheme asks for it.
func (c *Conn) secure(o *nats.Options, server *url.URL) (err error) {
	if server.Scheme != "tls" {
		return nil
	}
	o.Secure = true
	if c.TLS == nil {
		o.TLSConfig = &tls.Config{ServerName: server.Hostname(), MinVersion: tls.VersionTLS12}
		return nil
	}
	o.TLSConfig, err = c.TLS(server.Hostname())
	return err
}

// failed handles an asynchronous error from the server or the library. A missing right ends the
// calls that needed it; the connection stays open.
func (l *link) failed(err error) {
	switch {
	case errors.Is(err, nats.ErrPermissionViolation):
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.refused != nil {
			l.refused <- err.Error()
		}
		for f := range l.flights {
			if f.names(err.Error()) {
				f.cancel(connError(l.server, err))
			}
		}
	case errors.Is(err, nats.ErrSlowConsumer), errors.Is(err, nats.ErrBadHeaderMsg):
		// Others can cause these. Missing messages are requested again.
	default:
		l.end(err)
	}
}

// end ends all calls on a closed connection.
func (l *link) end(err error) {
	if err == nil {
		err = nats.ErrConnectionClosed
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken == nil {
		l.broken = connError(l.server, err)
		close(l.lost)
	}
	for f := range l.flights {
		f.cancel(l.broken)
	}
}

// flight is a set of requests that are sent at once, and their answers.
type flight struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	link    *link
	sub     *nats.Subscription
	inbox   string // the prefix of the subjects of all answers
	answers chan *nats.Msg

	mu       sync.Mutex
	subjects []string
}

// begin begins a flight. The caller must end it.
func (l *link) begin(ctx context.Context) (*flight, error) {
	f := &flight{link: l, inbox: l.prefix + rand.Text() + ".", answers: make(chan *nats.Msg, queued)}
	f.ctx, f.cancel = context.WithCancelCause(ctx)
	f.subjects = []string{f.inbox + "*"}
	l.mu.Lock()
	broken := l.broken
	l.flights[f] = true
	l.mu.Unlock()
	if broken != nil {
		f.end()
		return nil, broken
	}
	// NextMsg of the library mistakes an empty message, with a status that its sender chose,
	// for an answer of the server.
	sub, err := l.nc.ChanSubscribe(f.inbox+"*", f.answers)
	if err != nil {
		f.end()
		return nil, connError(l.server, err)
	}
	f.sub = sub
	return f, nil
}

func (f *flight) end() {
	f.link.mu.Lock()
	delete(f.link.flights, f)
	f.link.mu.Unlock()
	f.cancel(nil)
	if f.sub != nil {
		_ = f.sub.Unsubscribe() // it fails on a closed connection
	}
}

// names reports whether a permission error quotes a subject of this flight.
func (f *flight) names(text string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.subjects {
		if strings.Contains(text, strconv.Quote(s)) {
			return true
		}
	}
	return false
}

// ask publishes a request. The answer has the same name.
func (f *flight) ask(name, subject string, header nats.Header, data []byte) error {
	return f.publish(&nats.Msg{Subject: subject, Reply: f.inbox + name, Header: header, Data: data})
}

// tell publishes a message that gets no answer.
func (f *flight) tell(subject string, header nats.Header, data []byte) error {
	return f.publish(&nats.Msg{Subject: subject, Header: header, Data: data})
}

func (f *flight) publish(m *nats.Msg) error {
	f.mu.Lock()
	f.subjects = append(f.subjects, m.Subject)
	f.mu.Unlock()
	err := f.link.nc.PublishMsg(m)
	if errors.Is(err, nats.ErrMaxPayload) {
		return &Error{Server: f.link.server, Code: 413, Err: fmt.Errorf("message exceeds %d bytes (max_payload)", f.link.nc.MaxPayload())}
	}
	if err != nil {
		return connError(f.link.server, err)
	}
	return nil
}

// answer is a message that came for a flight.
type answer struct {
	*nats.Msg
	name   string // of the request; "" for a message that a consumer delivers
	status int    // the server's own status; 0 for a message
	text   string // of the status
}

// message waits for the next message. An available message takes precedence over the end of the
// flight.
func (f *flight) message() (*nats.Msg, error) {
	select {
	case m := <-f.answers:
		return m, nil
	default:
	}
	select {
	case m := <-f.answers:
		return m, nil
	case <-f.ctx.Done():
		return nil, f.ctx.Err()
	}
}

// next waits for the next answer.
func (f *flight) next() (answer, error) {
	m, err := f.message()
	if err != nil {
		return answer{}, f.cause(err)
	}
	name, ok := strings.CutPrefix(m.Subject, f.inbox)
	if !ok {
		return answer{Msg: m}, nil
	}
	a, err := answerOf(m)
	if err != nil {
		return answer{}, &Error{Server: f.link.server, Err: errInvalidAnswer}
	}
	if a.status == 503 {
		return answer{}, lostError(f.link.server, 503, errNoResponder)
	}
	a.name = name
	return a, nil
}

// answerOf reads the status of an answer.
func answerOf(m *nats.Msg) (a answer, err error) {
	a.Msg = m
	if status := m.Header["Status"]; len(status) > 0 && len(m.Header["Nats-Stream"]) == 0 {
		// A stored message may also have a status, which its sender chose.
		a.status, err = strconv.Atoi(status[0])
		a.text = strings.Join(m.Header["Description"], " ")
	}
	return a, err
}

// cause returns the reason why a flight ended before its answers came.
func (f *flight) cause(err error) error {
	if e, ok := errors.AsType[*Error](context.Cause(f.ctx)); ok {
		return e
	}
	f.link.mu.Lock()
	defer f.link.mu.Unlock()
	if f.link.broken != nil {
		return f.link.broken
	}
	return connError(f.link.server, err)
}

// apiError is an error answer of JetStream.
type apiError struct {
	Code   int    `json:"code"`
	Number int    `json:"err_code"`
	Text   string `json:"description"`
}

// decode decodes an answer of JetStream, which may be an error.
func (f *flight) decode(a answer, into any) error {
	var refusal struct {
		Error *apiError `json:"error"`
	}
	if json.Unmarshal(a.Data, &refusal) != nil || json.Unmarshal(a.Data, into) != nil {
		return &Error{Server: f.link.server, Err: errInvalidAnswer}
	}
	if refusal.Error != nil {
		return f.link.refusal(*refusal.Error)
	}
	return nil
}
