// Package mailtest starts mail servers on loopback for tests and for the demo:
// an IMAP server and an SMTP sink in memory, each with and without TLS, and a
// real Dovecot if one is installed.
package mailtest

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapserver"
	"github.com/emersion/go-imap/v2/imapserver/imapmemserver"
	"github.com/emersion/go-smtp"
)

// Options configure Start. The zero value starts plain servers that work.
type Options struct {
	Username string // default "agent@example.org"
	Password string // default "correct horse"
	Token    string // accepted by XOAUTH2 and OAUTHBEARER; "" refuses both
	CA       *CA    // issues the certificate; nil means a new authority
	Echo     bool   // the answer to a refused login repeats everything that was sent

	// SpecialUse announces SPECIAL-USE (RFC 6154), so that a client finds the folder of CreateSent.
	SpecialUse bool

	// Trace, if not nil, receives every byte of the IMAP conversations, in both directions.
	Trace io.Writer

	// OnFetch, if not nil, is called before each FETCH. Its error, an *imap.Error, is the
	// verbatim answer of the server. It may close conn.
	OnFetch func(conn net.Conn, uids imap.NumSet, options *imap.FetchOptions) error

	// OnSearch, if not nil, is called before each SEARCH, like OnFetch.
	OnSearch func(*imap.SearchCriteria) error

	// OnStore, if not nil, is called after each STORE that succeeded, before its
	// answer.
	OnStore func(uids imap.NumSet, flags *imap.StoreFlags)

	// OnMail, OnRcpt and OnData, if not nil, may reject the mail. The server sends an
	// *smtp.SMTPError verbatim. OnData is called when the final dot has come, before the
	// answer; it may close conn.
	OnMail func(from string) error
	OnRcpt func(to string) error
	OnData func(conn net.Conn, raw []byte) error
}

// Sent is one mail that the SMTP sink has accepted.
type Sent struct {
	From string
	To   []string
	Raw  []byte
}

// Servers are running servers. Every address is host:port on loopback. The servers with TLS
// have a certificate for "localhost" and 127.0.0.1, which CAFile verifies.
type Servers struct {
	IMAP, IMAPTLS      string // IMAP supports STARTTLS
	SMTP, SMTPTLS      string // SMTP supports STARTTLS
	CAFile             string
	Username, Password string

	options Options
	imap    *imapserver.Server
	smtp    *smtp.Server

	mu     sync.Mutex
	user   *imapmemserver.User
	sent   []Sent
	marked string      // the folder for sent mail; "" if there is none
	open   []io.Closer // the listeners and connections of smtp
	closed bool
}

// Start starts the servers and writes the CA certificate to dir. Close stops
// them.
func Start(dir string, options Options) (*Servers, error) {
	options.Username = cmp.Or(options.Username, "agent@example.org")
	options.Password = cmp.Or(options.Password, "correct horse")
	s := &Servers{
		CAFile:   filepath.Join(dir, "ca.pem"),
		Username: options.Username, Password: options.Password,
		options: options,
	}
	cfg, err := localhostTLS(options.CA, s.CAFile)
	if err != nil {
		return nil, err
	}
	if err := s.build(cfg); err != nil {
		return nil, err
	}
	if err := s.listen(cfg); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// New is Start without TLS and without listeners: it serves only those of ServeIMAP and ServeSMTP.
func New(options Options) (*Servers, error) {
	s := &Servers{Username: options.Username, Password: options.Password, options: options}
	return s, s.build(nil)
}

// build makes the servers.
func (s *Servers) build(cfg *tls.Config) error {
	quiet := log.New(io.Discard, "", 0)
	caps := imap.CapSet{imap.CapIMAP4rev1: {}}
	if s.options.SpecialUse {
		caps[imap.CapSpecialUse], caps[imap.CapListExtended] = struct{}{}, struct{}{}
	}
	s.imap = imapserver.New(&imapserver.Options{
		NewSession: func(c *imapserver.Conn) (imapserver.Session, *imapserver.GreetingData, error) {
			return &session{UserSession: imapmemserver.NewUserSession(s.currentUser()), servers: s, conn: c}, nil, nil
		},
		Caps:         caps,
		Logger:       quiet,
		TLSConfig:    cfg,
		InsecureAuth: true,
		DebugWriter:  s.options.Trace,
	})
	s.smtp = smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		return &delivery{servers: s, conn: c, accept: s.accept}, nil
	}))
	s.smtp.Domain = "localhost"
	s.smtp.AllowInsecureAuth = true
	s.smtp.EnableSMTPUTF8 = true
	s.smtp.TLSConfig = cfg
	s.smtp.ErrorLog = quiet
	return s.Reset()
}

// listen serves loopback.
func (s *Servers) listen(cfg *tls.Config) error {
	for _, l := range []struct {
		addr  *string
		tls   bool
		serve func(net.Listener) error
	}{
		{&s.IMAP, false, s.imap.Serve}, {&s.IMAPTLS, true, s.imap.Serve},
		{&s.SMTP, false, s.ServeSMTP}, {&s.SMTPTLS, true, s.ServeSMTP},
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

// ServeIMAP serves a further listener until Close, so that a test can have a
// connection of its own to the server.
func (s *Servers) ServeIMAP(l net.Listener) error { return s.imap.Serve(l) }

// ServeSMTP is ServeIMAP for SMTP.
func (s *Servers) ServeSMTP(l net.Listener) error {
	s.add(l)
	return s.smtp.Serve(breakable{l, s})
}

// Close stops the servers and breaks their connections.
func (s *Servers) Close() error {
	s.mu.Lock()
	s.closed = true
	for _, c := range s.open {
		c.Close() // an error means that it is closed
	}
	s.mu.Unlock()
	return s.imap.Close()
}

// breakable is a listener of SMTP whose connections end with Close. The Close of go-smtp ends them as
// well, but it changes sessions that other goroutines use.
type breakable struct {
	net.Listener
	of *Servers
}

func (b breakable) Accept() (net.Conn, error) {
	c, err := b.Listener.Accept()
	if err == nil && !b.of.add(c) {
		return nil, net.ErrClosed
	}
	return c, err
}

// add has Close close c. After Close it closes c itself and returns false.
func (s *Servers) add(c io.Closer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		c.Close()
		return false
	}
	s.open = append(s.open, c)
	return true
}

func (s *Servers) currentUser() *imapmemserver.User {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.user
}

// Create creates another folder.
func (s *Servers) Create(folder string) error { return s.currentUser().Create(folder, nil) }

// CreateSent creates another folder, which the server marks for sent mail if it announces
// SPECIAL-USE.
func (s *Servers) CreateSent(folder string) error {
	s.mu.Lock()
	s.marked = folder
	s.mu.Unlock()
	return s.Create(folder)
}

// Append adds a mail to the INBOX and returns its UID. If at is zero, the mail
// arrives now.
func (s *Servers) Append(raw []byte, at time.Time, flags ...imap.Flag) (uint32, error) {
	return s.AppendTo("INBOX", raw, at, flags...)
}

// AppendTo is Append for another folder.
func (s *Servers) AppendTo(folder string, raw []byte, at time.Time, flags ...imap.Flag) (uint32, error) {
	data, err := s.currentUser().Append(folder, bytes.NewReader(raw), &imap.AppendOptions{Time: at, Flags: flags})
	if err != nil {
		return 0, err
	}
	return uint32(data.UID), nil
}

// Renumber empties the INBOX and changes its UIDVALIDITY.
func (s *Servers) Renumber() error {
	u := s.currentUser()
	if err := u.Delete("INBOX"); err != nil {
		return err
	}
	return u.Create("INBOX", nil)
}

// Reset empties the INBOX, restarts its UIDs at 1 under the UIDVALIDITY that it had when the
// servers started, and forgets the sent mail.
func (s *Servers) Reset() error {
	user := imapmemserver.NewUser(s.options.Username, s.options.Password)
	if err := user.Create("INBOX", nil); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.user, s.sent = user, nil
	return nil
}

// SetPassword sets the password that new connections need.
func (s *Servers) SetPassword(password string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.options.Password = password
}

// SetToken sets the access token that new connections need.
func (s *Servers) SetToken(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.options.Token = token
}

// Sent returns the mails accepted so far.
func (s *Servers) Sent() []Sent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sent)
}

func (s *Servers) accept(m Sent) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, m)
	return nil
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

// T is the part of *testing.T and *testing.B that the helpers need. Because of this interface
// the demo does not link the testing package.
type T interface {
	Helper()
	TempDir() string
	Cleanup(func())
	Fatal(args ...any)
	Skip(args ...any)
	Logf(format string, args ...any)
}

// StartMemory starts the servers in memory for one test.
func StartMemory(t T, options Options) *Servers {
	t.Helper()
	s, err := Start(t.TempDir(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// Tokens is a token endpoint (RFC 6749 section 6) on loopback. Its fields may
// be changed under Lock.
type Tokens struct {
	URL, CAFile string // https

	sync.Mutex
	Refresh string // the accepted refresh token
	Code    string // is exchanged for the refresh token, with any verifier
	Secret  string // of the client, in the form or by Basic auth; "" requires none
	Rotate  bool   // each answer has another refresh token and revokes the earlier one
	Life    int    // expires_in, in seconds; 0 leaves it out
	Status  int    // if not 0, answered with Body instead of a token
	Body    string
	Asked   int             // the number of requests
	Access  string          // the last access token
	OnToken func(string)    // called with the token before the answer
	Wait    <-chan struct{} // the answer waits until it is closed; nil does not wait
}

// StartTokens starts an endpoint for one test. Every refresh token begins with
// refresh, every access token with access.
func StartTokens(t T, refresh, access string) *Tokens {
	t.Helper()
	s := &Tokens{Refresh: refresh, Life: 3600, CAFile: filepath.Join(t.TempDir(), "tokens.pem")}
	cfg, err := localhostTLS(nil, s.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		Handler:  http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, refresh, access) }),
		ErrorLog: log.New(io.Discard, "", 0),
	}
	go server.Serve(listener) // ends with Close
	t.Cleanup(func() { server.Close() })
	s.URL = "https://" + listener.Addr().String() + "/token"
	return s
}

func (s *Tokens) answer(w http.ResponseWriter, r *http.Request, refresh, access string) {
	s.Lock()
	defer s.Unlock()
	s.Asked++
	if s.Wait != nil {
		<-s.Wait
	}
	w.Header().Set("Content-Type", "application/json")
	if s.Status != 0 {
		w.WriteHeader(s.Status)
		fmt.Fprint(w, s.Body)
		return
	}
	refuse := func(status int, code, given string) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":%q,"error_description":"not %s"}`, code, given)
	}
	secret, kind, code, given := r.FormValue("client_secret"), r.FormValue("grant_type"), r.FormValue("code"), r.FormValue("refresh_token")
	if _, basic, ok := r.BasicAuth(); ok {
		secret = basic
	}
	consent := kind == "authorization_code"
	switch {
	case secret != s.Secret:
		refuse(http.StatusUnauthorized, "invalid_client", secret)
		return
	case consent && (s.Code == "" || code != s.Code || r.FormValue("code_verifier") == ""):
		refuse(http.StatusBadRequest, "invalid_grant", code)
		return
	case !consent && (given != s.Refresh || kind != "refresh_token"):
		refuse(http.StatusBadRequest, "invalid_grant", given)
		return
	}
	if s.Rotate {
		s.Refresh = fmt.Sprintf("%s-%d", refresh, s.Asked)
	}
	more := ""
	if consent || s.Rotate {
		more = fmt.Sprintf(`,"refresh_token":%q`, s.Refresh)
	}
	if s.Life > 0 {
		more += fmt.Sprintf(`,"expires_in":%d`, s.Life)
	}
	s.Access = fmt.Sprintf("%s-%d", access, s.Asked)
	if s.OnToken != nil {
		s.OnToken(s.Access)
	}
	fmt.Fprintf(w, `{"token_type":"Bearer","access_token":%q%s}`, s.Access, more)
}
