package mail

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// How a connection is protected (DESIGN 12).
const (
	TLSImplicit = "implicit" // TLS from the first byte
	TLSStart    = "starttls" // the STARTTLS command, demanded, before any secret
	TLSNone     = "none"     // loopback only
)

// How a login is proved (DESIGN 12). For the last two, Secret is an access
// token.
const (
	AuthPlain       = "plain"
	AuthXOAuth2     = "xoauth2"
	AuthOAuthBearer = "oauthbearer"
)

// Server is one endpoint and how to log in to it. It holds no connection and
// no secret.
type Server struct {
	Addr     string // host:port
	TLS      string // TLSImplicit, TLSStart or TLSNone
	Auth     string // AuthPlain, AuthXOAuth2 or AuthOAuthBearer; "" is AuthPlain
	Username string

	// Secret is read anew at each login (DESIGN 10). Its error is reported as
	// a failure of the credential.
	Secret func(context.Context) (string, error)

	// Renew, where set, is asked once when the server has refused a secret, and
	// gives another to try at once; ErrNoOther: there is none.
	Renew func(ctx context.Context, refused string) (string, error)

	CAFile  string        // PEM; replaces the system's roots
	Timeout time.Duration // for one network phase: connect, login, search, one fetch, one send; 0 means 30 s
}

func (s Server) timeout() time.Duration {
	if s.Timeout <= 0 {
		return 30 * time.Second
	}
	return s.Timeout
}

// dial connects and, for TLSImplicit, shakes hands. With TLSStart the
// connection is still in clear: only the STARTTLS exchange may use it.
func (s Server) dial(ctx context.Context) (net.Conn, error) {
	host, _, err := net.SplitHostPort(s.Addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %q: want host:port", s.Addr)
	}
	if s.TLS == TLSNone && !loopbackName(host) {
		return nil, fmt.Errorf("connect to %s: tls = %q is allowed on loopback only; use %q or %q", s.Addr, TLSNone, TLSImplicit, TLSStart)
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout())
	defer cancel()

	tcp, err := new(net.Dialer).DialContext(ctx, "tcp", s.Addr)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	switch s.TLS {
	case TLSImplicit:
		conn, err := s.handshake(ctx, tcp)
		if err != nil {
			tcp.Close()
			return nil, err
		}
		return conn, nil
	case TLSStart:
		return tcp, nil
	case TLSNone:
		// A name like localhost may have been pointed elsewhere.
		if a, ok := tcp.RemoteAddr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
			tcp.Close()
			return nil, fmt.Errorf("connect to %s: tls = %q is allowed on loopback only", s.Addr, TLSNone)
		}
		return tcp, nil
	default:
		tcp.Close()
		return nil, fmt.Errorf("connect to %s: tls = %q: want %q, %q or %q", s.Addr, s.TLS, TLSImplicit, TLSStart, TLSNone)
	}
}

func loopbackName(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// handshake makes conn a verified TLS connection. It leaves conn open on error.
func (s Server) handshake(ctx context.Context, conn net.Conn) (*tls.Conn, error) {
	cfg, err := s.tlsConfig()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout())
	defer cancel()
	tc := tls.Client(conn, cfg)
	if err := tc.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("tls with %s: %w", s.Addr, err)
	}
	return tc, nil
}

func (s Server) tlsConfig() (*tls.Config, error) {
	host, _, err := net.SplitHostPort(s.Addr)
	if err != nil || host == "" {
		return nil, fmt.Errorf("tls with %q: want host:port", s.Addr)
	}
	cfg := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if s.CAFile == "" {
		useSystemRoots(cfg)
		return cfg, nil
	}
	pem, err := os.ReadFile(s.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read ca_file: %w", err)
	}
	cfg.RootCAs = x509.NewCertPool()
	if !cfg.RootCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read ca_file %s: no certificate in it", s.CAFile)
	}
	return cfg, nil
}

// startPhase gives one network phase its deadline. It must be called on a
// connection as dial returned it, never on a fixedDeadline.
func (s Server) startPhase(conn net.Conn) { conn.SetDeadline(time.Now().Add(s.timeout())) }

// fixedDeadline keeps a library from moving the deadlines of a connection:
// go-imap lifts them after each response, go-smtp after each command, and both
// would let a server that goes silent in between hold us for ever.
type fixedDeadline struct{ net.Conn }

func (fixedDeadline) SetDeadline(time.Time) error      { return nil }
func (fixedDeadline) SetReadDeadline(time.Time) error  { return nil }
func (fixedDeadline) SetWriteDeadline(time.Time) error { return nil }

// closeOnDone breaks conn when ctx ends, so that no read or write outlasts it.
// The caller must call stop.
func closeOnDone(ctx context.Context, conn net.Conn) (stop func() bool) {
	return context.AfterFunc(ctx, func() { conn.Close() })
}

// cause prefers the reason a context ended to what the connection it broke
// says about it.
func cause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
		return cause
	}
	return err
}
