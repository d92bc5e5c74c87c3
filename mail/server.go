package mail

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"os"
	"strings"
	"time"

	"agentstateloop/internal/plain"

	"github.com/emersion/go-smtp"
)

// The values of Server.TLS, which protect a connection.
const (
	TLSImplicit = "implicit" // TLS from the first byte
	TLSStart    = "starttls" // the STARTTLS command, required before any secret is sent
	TLSNone     = "none"     // loopback only
)

// The values of Server.Auth, the login methods. For the last two, Secret is an access token.
const (
	AuthPlain       = "plain"
	AuthXOAuth2     = "xoauth2"
	AuthOAuthBearer = "oauthbearer"
)

// Server is one endpoint and how to log in to it. It holds no connection and no secret.
type Server struct {
	Addr     string // host:port
	TLS      string // TLSImplicit, TLSStart or TLSNone
	Auth     string // AuthPlain, AuthXOAuth2 or AuthOAuthBearer; "" is AuthPlain
	Username string

	// Secret is called at each login (docs/design.md, "Credentials"). Its error
	// is reported as a failure of the credential.
	Secret func(context.Context) (string, error)

	// Renew may be nil. It is called once when the server has refused a secret,
	// and returns another one to try at once, or ErrNoOther.
	Renew func(ctx context.Context, refused string) (string, error)

	CAFile  string        // PEM file of roots; replaces the system's
	Roots   *Roots        // remembers which root of the system ended the server's chain; may be nil
	Timeout time.Duration // for one network phase without progress: connect, login, search, fetch, send; 0 means 30 s

	// Dial replaces a net.Dialer in the simulator.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

func (s Server) timeout() time.Duration {
	if s.Timeout <= 0 {
		return 30 * time.Second
	}
	return s.Timeout
}

// dial connects, and with TLSImplicit completes the handshake. With TLSStart the connection is
// still unencrypted, and only the STARTTLS exchange may use it.
func (s Server) dial(ctx context.Context) (*boundedConn, error) {
	host, _, err := net.SplitHostPort(s.Addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %q: not host:port", s.Addr)
	}
	if s.TLS == TLSNone && !loopbackName(host) {
		return nil, fmt.Errorf("connect: tls = %q is allowed only on loopback; use %q or %q", TLSNone, TLSImplicit, TLSStart)
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout())
	defer cancel()

	dial := s.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	conn, err := dial(ctx, "tcp", s.Addr)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", worded(err))
	}
	tcp := newPacedConn(conn)
	switch s.TLS {
	case TLSImplicit:
		conn, err := s.handshake(ctx, tcp)
		if err != nil {
			tcp.Close()
			return nil, err
		}
		return newBoundedConn(conn, tcp), nil
	case TLSStart:
		return newBoundedConn(tcp, tcp), nil
	case TLSNone:
		// A name like localhost may have been pointed elsewhere.
		if a, ok := tcp.RemoteAddr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
			tcp.Close()
			return nil, fmt.Errorf("connect: tls = %q is allowed only on loopback", TLSNone)
		}
		return newBoundedConn(tcp, tcp), nil
	default:
		tcp.Close()
		return nil, fmt.Errorf("connect: tls = %q is not %q, %q or %q", s.TLS, TLSImplicit, TLSStart, TLSNone)
	}
}

func loopbackName(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// handshake makes conn a verified TLS connection. On error it leaves conn open.
func (s Server) handshake(ctx context.Context, conn net.Conn) (*tls.Conn, error) {
	cfg, err := s.tlsConfig()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout())
	defer cancel()
	tc := tls.Client(conn, cfg)
	if err := tc.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("tls: %w", worded(err))
	}
	return tc, nil
}

func (s Server) tlsConfig() (*tls.Config, error) {
	host, _, err := net.SplitHostPort(s.Addr)
	if err != nil || host == "" {
		return nil, fmt.Errorf("tls: %q is not host:port", s.Addr)
	}
	return TLSConfig(host, s.CAFile, s.Roots)
}

// withFreshRoots calls open. If the server's chain does not end in its remembered root, withFreshRoots
// calls open once more, which then uses all roots of the system.
func withFreshRoots[C any](s Server, open func() (C, error)) (C, error) {
	conn, err := open()
	if host, _, _ := net.SplitHostPort(s.Addr); s.CAFile == "" && s.Roots.Doubted(host, err) {
		return open()
	}
	return conn, err
}

// TLSConfig returns the configuration of a client for a server with this name or address. It
// trusts the roots in the PEM file caFile. If caFile is "", it trusts the roots of the system,
// by way of roots.
func TLSConfig(host, caFile string, roots *Roots) (*tls.Config, error) {
	if caFile == "" {
		return roots.Config(host), nil
	}
	cfg := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("read ca_file: %w", err)
	}
	cfg.RootCAs = x509.NewCertPool()
	if !cfg.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read ca_file %s: it contains no certificate", caFile)
	}
	return cfg, nil
}

// startPhase begins a network phase. It sets the deadline of the phase, which is about
// progress, and the server's allowance.
func (s Server) startPhase(conn *boundedConn) {
	conn.SetDeadline(time.Now().Add(s.timeout()))
	conn.refill()
}

// fixedDeadline keeps a library from moving the deadlines of a connection. go-imap lifts them
// after each response, go-smtp after each command. A server that then goes silent could hold us
// forever.
type fixedDeadline struct{ net.Conn }

func (fixedDeadline) SetDeadline(time.Time) error      { return nil }
func (fixedDeadline) SetReadDeadline(time.Time) error  { return nil }
func (fixedDeadline) SetWriteDeadline(time.Time) error { return nil }

// closeOnDone closes conn when ctx ends, so that no read or write outlasts it.
// The caller must call stop.
func closeOnDone(ctx context.Context, conn net.Conn) (stop func() bool) {
	return context.AfterFunc(ctx, func() { conn.Close() })
}

// cause returns the reason why ctx ended, or err if ctx has not ended. The error of a
// connection that ctx closed is less informative.
func cause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return cause
	}
	return err
}

// wordedError has a text of its own. The texts of the libraries repeat parts of ours: the
// address, the operation, the code.
type wordedError struct {
	text string
	err  error
}

func (e *wordedError) Error() string { return e.text }
func (e *wordedError) Unwrap() error { return e.err }

// worded returns err with a text that names no address and repeats no words. It keeps the
// errors that err wraps.
func worded(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*wordedError](err); ok {
		return err
	}
	if text := wording(err); text != err.Error() {
		return &wordedError{text, err}
	}
	return err
}

func wording(err error) string {
	if reply, ok := errors.AsType[*smtp.SMTPError](err); ok {
		return strings.Replace(err.Error(), reply.Error(), strings.TrimSpace(fmt.Sprintf("%d %s", reply.Code, reply.Message)), 1)
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		if dns.IsNotFound {
			return "no such host"
		}
		return "DNS lookup failed: " + dns.Err
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		return "timed out"
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		if call, ok := errors.AsType[*os.SyscallError](op.Err); ok {
			return call.Err.Error()
		}
		return op.Err.Error()
	}
	if words, ok := errors.AsType[textproto.ProtocolError](err); ok {
		_, line, _ := strings.Cut(string(words), ": ")
		return fmt.Sprintf("the server does not speak SMTP: %q", plain.OneLine(strings.Trim(line, `"`), 60))
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "the server closed the connection"
	}
	return strings.TrimPrefix(err.Error(), "tls: ")
}
