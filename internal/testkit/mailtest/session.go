package mailtest

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapserver"
	"github.com/emersion/go-imap/v2/imapserver/imapmemserver"
	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// session is one IMAP connection of the library, with our logins and faults.
type session struct {
	*imapmemserver.UserSession
	servers *Servers
	conn    *imapserver.Conn
}

func (s *session) Login(username, password string) error {
	if s.servers.login(username, password) {
		return nil
	}
	if s.servers.options.Echo {
		return &imap.Error{Type: imap.StatusResponseTypeNo, Code: imap.ResponseCodeAuthenticationFailed, Text: echo(username, password)}
	}
	return imapserver.ErrAuthFailed
}

// echo repeats a login, as a careless server does.
func echo(username, password string) string {
	return fmt.Sprintf("no login %s %q %s", password, password, base64.StdEncoding.EncodeToString([]byte("\x00"+username+"\x00"+password)))
}

func (s *session) AuthenticateMechanisms() []string { return mechanisms() }

func (s *session) Authenticate(mech string) (sasl.Server, error) {
	return saslServer(s.servers, mech, imapserver.ErrAuthFailed, func() {}), nil
}

func (s *session) Fetch(w *imapserver.FetchWriter, set imap.NumSet, options *imap.FetchOptions) error {
	if hook := s.servers.options.OnFetch; hook != nil {
		if err := hook(s.conn.NetConn(), set, options); err != nil {
			return err
		}
	}
	return s.UserSession.Fetch(w, set, options)
}

func (s *session) Search(kind imapserver.NumKind, criteria *imap.SearchCriteria, options *imap.SearchOptions) (*imap.SearchData, error) {
	if hook := s.servers.options.OnSearch; hook != nil {
		if err := hook(criteria); err != nil {
			return nil, err
		}
	}
	return s.UserSession.Search(kind, criteria, options)
}

// List answers a search for special uses, which the library cannot.
func (s *session) List(w *imapserver.ListWriter, ref string, patterns []string, options *imap.ListOptions) error {
	if !options.SelectSpecialUse {
		return s.UserSession.List(w, ref, patterns, options)
	}
	s.servers.mu.Lock()
	marked := s.servers.marked
	s.servers.mu.Unlock()
	if marked == "" {
		return nil
	}
	return w.WriteList(&imap.ListData{Attrs: []imap.MailboxAttr{imap.MailboxAttrSent}, Delim: '/', Mailbox: marked})
}

func (s *session) Store(w *imapserver.FetchWriter, set imap.NumSet, flags *imap.StoreFlags, options *imap.StoreOptions) error {
	err := s.UserSession.Store(w, set, flags, options)
	if hook := s.servers.options.OnStore; hook != nil && err == nil {
		hook(set, flags)
	}
	return err
}

// delivery is one SMTP connection.
type delivery struct {
	servers *Servers
	conn    *smtp.Conn
	accept  func(Sent) error
	trusted bool
	from    string
	to      []string
}

func (d *delivery) AuthMechanisms() []string { return mechanisms() }

func (d *delivery) Auth(mech string) (sasl.Server, error) {
	return saslServer(d.servers, mech, smtp.ErrAuthFailed, func() { d.trusted = true }), nil
}

func (d *delivery) Mail(from string, _ *smtp.MailOptions) error {
	if !d.trusted {
		return &smtp.SMTPError{Code: 530, EnhancedCode: smtp.EnhancedCode{5, 7, 0}, Message: "Authentication required"}
	}
	if hook := d.servers.options.OnMail; hook != nil {
		if err := hook(from); err != nil {
			return err
		}
	}
	d.from = from
	return nil
}

func (d *delivery) Rcpt(to string, _ *smtp.RcptOptions) error {
	if hook := d.servers.options.OnRcpt; hook != nil {
		if err := hook(to); err != nil {
			return err
		}
	}
	d.to = append(d.to, to)
	return nil
}

func (d *delivery) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if hook := d.servers.options.OnData; hook != nil {
		if err := hook(d.conn.Conn(), raw); err != nil {
			return err
		}
	}
	return d.accept(Sent{From: d.from, To: d.to, Raw: raw})
}

func (d *delivery) Reset()        { d.from, d.to = "", nil }
func (d *delivery) Logout() error { return nil }

func mechanisms() []string { return []string{"PLAIN", "XOAUTH2", "OAUTHBEARER"} }

// saslServer returns a server that checks logins against s. A login that it refuses, such as one by
// an unknown mechanism, ends in the error refused.
func saslServer(s *Servers, mech string, refused error, accepted func()) sasl.Server {
	server := &tokenServer{servers: s, refused: refused, accepted: accepted}
	switch mech {
	case "PLAIN":
		return sasl.NewPlainServer(func(_, username, password string) error {
			if s.login(username, password) {
				accepted()
				return nil
			}
			if s.options.Echo {
				return &smtp.SMTPError{Code: 535, EnhancedCode: smtp.EnhancedCode{5, 7, 8}, Message: echo(username, password)}
			}
			return refused
		})
	case "XOAUTH2":
		server.want = "user=" + s.Username + "\x01auth=Bearer %s\x01\x01"
	case "OAUTHBEARER":
		server.want = "n,a=" + s.Username + ",\x01auth=Bearer %s\x01\x01"
	}
	return server
}

// tokenServer accepts one exact initial response. Like Gmail, it first explains a refusal, and
// refuses after the next line of the client.
type tokenServer struct {
	want      string // with %s for the token; "" accepts none
	servers   *Servers
	refused   error
	accepted  func()
	explained bool
}

func (t *tokenServer) Next(response []byte) ([]byte, bool, error) {
	token := t.servers.token()
	switch {
	case t.explained:
		return nil, true, t.refused
	case response == nil:
		return nil, false, errors.New("no initial response")
	case token != "" && t.want != "" && string(response) == fmt.Sprintf(t.want, token):
		t.accepted()
		return nil, true, nil
	}
	t.explained = true
	if t.servers.options.Echo {
		return fmt.Appendf(nil, `{"status":"401","got":%q,"raw":"%x"}`, response, response), false, nil
	}
	return []byte(`{"status":"400","schemes":"Bearer"}`), false, nil
}

// Idle reports news from the moment IDLE is accepted, as real servers do. The Idle of the
// library reports only news that comes once it waits. It would report mail from just before at
// the end of the IDLE.
func (s *session) Idle(w *imapserver.UpdateWriter, stop <-chan struct{}) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if err := s.Poll(w, true); err != nil {
			return err
		}
		select {
		case <-stop:
			return nil
		case <-tick.C:
		}
	}
}

// OutsideQuotes returns a field without its quotes and comments. It is a plain implementation,
// one byte at a time, to check a parser against.
func OutsideQuotes(value string) string {
	var b strings.Builder
	quoted, escaped, depth := false, false, 0
	for i := range len(value) {
		c := value[i]
		switch {
		case escaped:
			escaped = false
		case c == '\\' && (quoted || depth > 0):
			escaped = true
		case c == '"' && depth == 0:
			quoted = !quoted
		case quoted:
		case c == '(':
			depth++
		case c == ')' && depth > 0:
			depth--
		case depth == 0:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// The mails of a test need no real signature if its server only reports a verified one. These
// fields are the report and the signature. They have no line end.

// Verdict returns the field of a server that found a mail signed by domain, and DMARC passed
// for it.
func Verdict(authservID, domain string) string {
	return "Authentication-Results: " + authservID + "; dkim=pass header.d=" + domain + " header.s=s1 header.b=" + signatureValue[:8] +
		"; dmarc=pass header.from=" + domain
}

// Signature returns a signature of domain that covers fields. It cannot be verified.
func Signature(domain string, fields ...string) string {
	return "DKIM-Signature: v=1; a=rsa-sha256; c=relaxed/relaxed; d=" + domain + "; s=s1; h=" + strings.Join(fields, ":") +
		"; bh=aGFzaA==; b=" + signatureValue
}

const signatureValue = "c2lnbmVkIGJ5IHRoZW0="

// StartNobody returns the address of a port on loopback that refuses each connection until the
// test ends. The port is taken, so that another test cannot listen on it.
func StartNobody(t T) (addr string) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	syscall.CloseOnExec(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", bound.(*syscall.SockaddrInet4).Port)
}

// Repeated returns the first three words that occur twice in a line, or "". An error that wraps
// another one and repeats its text has such words.
func Repeated(line string) string {
	words := strings.Fields(line)
	seen := map[string]int{}
	for i := 0; i+3 <= len(words); i++ {
		phrase := strings.ToLower(strings.Join(words[i:i+3], " "))
		phrase = strings.Trim(phrase, `.,:;()"'`)
		if first, again := seen[phrase]; again && i >= first+3 {
			return phrase
		}
		if _, again := seen[phrase]; !again {
			seen[phrase] = i
		}
	}
	return ""
}
