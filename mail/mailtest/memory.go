// Package mailtest starts mail servers on loopback for tests and for the demo:
// an IMAP server and an SMTP sink in memory, each in clear and with TLS, and a
// real Dovecot where one is installed.
package mailtest

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapserver"
	"github.com/emersion/go-imap/v2/imapserver/imapmemserver"
	"github.com/emersion/go-smtp"
)

// Options change what Start starts. The zero value is a plain working server.
type Options struct {
	Username string // default "agent@example.org"
	Password string // default "correct horse"
	Token    string // accepted by XOAUTH2 and OAUTHBEARER; "" refuses both
	Echo     bool   // a refused login is answered with all that was sent

	// Trace, if not nil, gets every byte of the IMAP conversations, both ways.
	Trace io.Writer

	// OnFetch, if not nil, is called before each FETCH. Its error is the
	// server's answer (an *imap.Error is given as it is); it may close conn.
	OnFetch func(conn net.Conn, uids imap.NumSet, options *imap.FetchOptions) error

	// OnMail, OnRcpt and OnData, if not nil, may refuse (an *smtp.SMTPError is
	// given as it is). OnData is called when the final dot has come, before the
	// answer; it may close conn.
	OnMail func(from string) error
	OnRcpt func(to string) error
	OnData func(conn net.Conn, raw []byte) error
}

// Sent is one mail the SMTP sink accepted.
type Sent struct {
	From string
	To   []string
	Raw  []byte
}

// Servers are running servers. Every address is host:port on loopback; the TLS
// ones carry a certificate for "localhost" and 127.0.0.1 that CAFile verifies.
type Servers struct {
	IMAP, IMAPTLS      string // IMAP knows STARTTLS
	SMTP, SMTPTLS      string // SMTP knows STARTTLS
	CAFile             string
	Username, Password string

	options Options
	imap    *imapserver.Server
	smtp    *smtp.Server

	mu   sync.Mutex
	user *imapmemserver.User
	sent []Sent
	news chan struct{} // closed and replaced when sent grows
}

// Start starts the servers; dir gets the CA certificate. Close stops them.
func Start(dir string, options Options) (*Servers, error) {
	if options.Username == "" {
		options.Username = "agent@example.org"
	}
	if options.Password == "" {
		options.Password = "correct horse"
	}
	ca, err := NewCA()
	if err != nil {
		return nil, err
	}
	cert, err := ca.Issue("localhost")
	if err != nil {
		return nil, err
	}
	s := &Servers{
		CAFile:   filepath.Join(dir, "ca.pem"),
		Username: options.Username, Password: options.Password,
		options: options, news: make(chan struct{}),
	}
	if err := os.WriteFile(s.CAFile, ca.PEM, 0o600); err != nil {
		return nil, err
	}
	s.user = imapmemserver.NewUser(options.Username, options.Password)
	if err := s.user.Create("INBOX", nil); err != nil {
		return nil, err
	}
	if err := s.serve(&tls.Config{Certificates: []tls.Certificate{cert}}); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Servers) serve(cfg *tls.Config) error {
	quiet := log.New(io.Discard, "", 0)
	s.imap = imapserver.New(&imapserver.Options{
		NewSession: func(c *imapserver.Conn) (imapserver.Session, *imapserver.GreetingData, error) {
			return &session{UserSession: imapmemserver.NewUserSession(s.currentUser()), servers: s, conn: c}, nil, nil
		},
		Caps:         imap.CapSet{imap.CapIMAP4rev1: {}},
		Logger:       quiet,
		TLSConfig:    cfg,
		InsecureAuth: true,
		DebugWriter:  s.options.Trace,
	})
	s.smtp = smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		return &delivery{servers: s, conn: c}, nil
	}))
	s.smtp.Domain = "localhost"
	s.smtp.AllowInsecureAuth = true
	s.smtp.EnableSMTPUTF8 = true
	s.smtp.TLSConfig = cfg
	s.smtp.ErrorLog = quiet

	for _, l := range []struct {
		addr  *string
		tls   bool
		serve func(net.Listener) error
	}{
		{&s.IMAP, false, s.imap.Serve}, {&s.IMAPTLS, true, s.imap.Serve},
		{&s.SMTP, false, s.smtp.Serve}, {&s.SMTPTLS, true, s.smtp.Serve},
	} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		*l.addr = ln.Addr().String()
		if l.tls {
			ln = tls.NewListener(ln, cfg)
		}
		go l.serve(ln) // ends with Close
	}
	return nil
}

// ServeIMAP and ServeSMTP serve a further listener until Close, so that a test
// can have a wire of its own to the servers.
func (s *Servers) ServeIMAP(l net.Listener) error { return s.imap.Serve(l) }

// ServeSMTP: see ServeIMAP.
func (s *Servers) ServeSMTP(l net.Listener) error { return s.smtp.Serve(l) }

// Close stops the servers and breaks their connections.
func (s *Servers) Close() error {
	var errs []error
	if s.imap != nil {
		errs = append(errs, s.imap.Close())
	}
	if s.smtp != nil {
		errs = append(errs, s.smtp.Close())
	}
	return errors.Join(errs...)
}

func (s *Servers) currentUser() *imapmemserver.User {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.user
}

// Append puts a mail into the INBOX and gives its UID. A zero at is now.
func (s *Servers) Append(raw []byte, at time.Time, flags ...imap.Flag) (uint32, error) {
	data, err := s.currentUser().Append("INBOX", literal{bytes.NewReader(raw)}, &imap.AppendOptions{Time: at, Flags: flags})
	if err != nil {
		return 0, err
	}
	return uint32(data.UID), nil
}

// literal is a reader that knows its size.
type literal struct{ *bytes.Reader }

func (l literal) Size() int64 { return l.Reader.Size() }

// Renumber empties the INBOX and gives it another UIDVALIDITY.
func (s *Servers) Renumber() error {
	u := s.currentUser()
	if err := u.Delete("INBOX"); err != nil {
		return err
	}
	return u.Create("INBOX", nil)
}

// SetPassword changes the password that new connections need.
func (s *Servers) SetPassword(password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.options.Password = password
}

// SetToken changes the access token that new connections need.
func (s *Servers) SetToken(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.options.Token = token
}

// Sent gives the mails accepted so far.
func (s *Servers) Sent() []Sent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Sent(nil), s.sent...)
}

// News is closed when the next mail is accepted. Ask for it before looking at
// Sent.
func (s *Servers) News() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.news
}

func (s *Servers) accept(m Sent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, m)
	close(s.news)
	s.news = make(chan struct{})
}

func (s *Servers) token() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.options.Token
}

func (s *Servers) login(username, password string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return username == s.options.Username && password == s.options.Password
}
