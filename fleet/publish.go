package fleet

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"

	"agentstateloop/internal/plain"

	"github.com/nats-io/nats.go"
)

// Stored is the place of a published message on the server.
type Stored struct {
	Stream    string `json:"stream"`
	Sequence  uint64 `json:"seq"`
	Duplicate bool   `json:"duplicate"` // it was already stored
}

// refusal returns the error for an error answer of JetStream.
func (l *link) refusal(e apiError) error {
	err := &Error{Server: l.server, Code: e.Code, Number: e.Number, Err: errors.New(plain.Line(plain.Cut(e.Text, 200)))}
	const temporarilyUnavailable, duplicateInProcess = 10163, 10158
	// After 503 and the two others, it is unknown whether the message is stored.
	err.Lost = e.Code == 503 && !full(e) || e.Number == temporarilyUnavailable || e.Number == duplicateInProcess
	if err.Lost {
		err.Code = 503 // a repeat in progress gets a 409, which would end the retries of an outbox
	}
	return err
}

// full reports whether a limit of the stream refused the message. A server that closes a stream
// answers with the same number, and the others may store the message.
func full(e apiError) bool { return e.Number == numberStoreFailed && e.Text != "store is closed" }

// stored reads the acknowledgement of a stream.
func (f *flight) stored(a answer, stream string) (Stored, error) {
	var s Stored
	if err := f.decode(a, &s); err != nil {
		return Stored{}, err
	}
	if s.Stream != stream || s.Sequence == 0 {
		return Stored{}, &Error{Server: f.link.server, Err: errInvalidAnswer}
	}
	return s, nil
}

// store publishes a message, and waits until the stream has it on disk. If then is not nil, it
// may publish more messages, and store does not wait for them.
func (c *Conn) store(ctx context.Context, stream string, m *nats.Msg, then func(*flight) error) (s Stored, err error) {
	err = c.do(ctx, func(ctx context.Context, l *link) error {
		f, err := l.begin(ctx)
		if err != nil {
			return err
		}
		defer f.end()
		if err := f.ask("stored", m.Subject, m.Header, m.Data); err != nil {
			return err
		}
		a, err := f.next()
		if err != nil {
			return err
		}
		if s, err = f.stored(a, stream); err == nil && then != nil {
			err = then(f)
		}
		return err
	})
	return s, err
}

// Answer is the answer of a server to a raw request.
type Answer struct {
	Server string // the server that answered
	Header map[string][]string
	Data   []byte
}

// Request publishes a request, once, and returns its answer without judging it.
func (c *Conn) Request(ctx context.Context, subject string, data []byte, header map[string][]string) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout())
	defer cancel()
	l, err := c.connect(ctx)
	if err != nil {
		return Answer{}, err
	}
	var answered Answer
	err = c.attempt(ctx, l, func(ctx context.Context, l *link) error {
		f, err := l.begin(ctx)
		if err != nil {
			return err
		}
		defer f.end()
		if err := f.ask("answer", subject, header, data); err != nil {
			return err
		}
		a, err := f.next()
		if err != nil {
			return err
		}
		answered = Answer{Server: l.server, Header: a.Header, Data: a.Data}
		return nil
	})
	return answered, err
}

// Error is a failed call.
type Error struct {
	Server string // host:port; "" if no server was reached
	Code   int    // the status of the server's answer, as in HTTP; 0 without an answer
	Number int    // the server's own number for the error, such as 10077; 0 without a number
	Denied bool   // the server refused the key, or the key lacks a right
	Lost   bool   // an immediate retry may help; see Unsure
	Err    error
}

func (e *Error) Error() string {
	if e.Server == "" {
		return e.Err.Error()
	}
	return e.Server + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// numberStoreFailed is the server's number for a message that it cannot store, most often because
// of a limit of the stream.
const numberStoreFailed = 10077

// Full reports whether a limit of the stream refused the message.
func (e *Error) Full() bool { return e.Number == numberStoreFailed && !e.Lost }

// ErrAuthority means that a server is not trusted: the certificates of this machine do not
// prove the server's certificate.
var ErrAuthority = errors.New("server certificate signed by an unknown authority")

var (
	errNoAnswer      = errors.New("no answer")
	errNoResponder   = errors.New("JetStream does not answer: the servers may be electing a leader or lack a quorum, or the streams do not exist (agentstateloop fleet create)")
	errInvalidAnswer = errors.New("invalid answer: is this a NATS server with JetStream?")
)

// lostError returns an error after which the same call may succeed at once, on another
// connection or after a moment.
func lostError(server string, code int, err error) *Error {
	return &Error{Server: server, Code: code, Err: err, Lost: true}
}

// lost reports whether a retry may help.
func lost(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Lost
}

// connError returns the error of a connection in plain words.
func connError(server string, err error) *Error {
	e := &Error{Server: server, Err: err, Lost: true}
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked),
		errors.Is(err, nats.ErrAccountAuthExpired):
		e.Denied, e.Lost, e.Err = true, false, errors.New("key refused: is its public key in the configuration of the servers?")
	case errors.Is(err, nats.ErrNkeysNotSupported):
		e.Lost, e.Err = false, errors.New("no keys configured: was it started with the configuration from fleet plan?")
	case errors.Is(err, nats.ErrPermissionViolation):
		_, right, _ := strings.Cut(err.Error(), "Permissions Violation for ")
		e.Denied, e.Lost, e.Err = true, false, fmt.Errorf("the key lacks a right: %s", plain.Line(plain.Cut(right, 200)))
	case errors.Is(err, nats.ErrSecureConnWanted):
		e.Lost, e.Err = false, errors.New("server does not support TLS")
	case isA[x509.UnknownAuthorityError](err):
		e.Lost, e.Err = false, ErrAuthority
	case isA[x509.HostnameError](err):
		e.Lost, e.Err = false, errors.New("server certificate not valid for the name in url")
	case isA[x509.CertificateInvalidError](err):
		e.Lost, e.Err = false, errors.New("invalid server certificate: has it expired?")
	case errors.Is(err, nats.ErrMaxConnectionsExceeded):
		e.Err = errors.New("too many connections")
	case errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrStaleConnection), errors.Is(err, nats.ErrDisconnected),
		errors.Is(err, net.ErrClosed), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		e.Err = errors.New("the connection was lost")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		e.Err = errNoAnswer
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Err = errors.New("connection refused")
	default:
		// The text may quote a server.
		e.Err = errors.New(strings.TrimPrefix(plain.Line(plain.Cut(err.Error(), 200)), "nats: "))
	}
	return e
}

func isA[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
