package mail

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"agentstateloop/internal/order"
	"agentstateloop/internal/plain"
	"agentstateloop/internal/secret"
	"agentstateloop/state"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-sasl"
)

// openWithSecret opens a connection with the secret of s. If the server refuses the secret,
// openWithSecret tries once more with the secret that Renew returns.
func openWithSecret[C any](ctx context.Context, s Server, credential string, open func(secret string) (C, error)) (C, error) {
	var none C
	if s.Secret == nil {
		return none, &state.CredentialError{Name: credential, Err: errors.New("no secret is configured")}
	}
	secret, err := s.Secret(ctx)
	if err != nil {
		return none, secretUnavailable(ctx, credential, err)
	}
	conn, refused := open(secret)
	if _, is := state.CredentialFailure(refused); !is || s.Renew == nil {
		return conn, refused
	}
	secret, err = s.Renew(ctx, secret)
	if errors.Is(err, ErrNoOther) {
		return none, refused
	}
	if err != nil {
		return none, secretUnavailable(ctx, credential, err)
	}
	return open(secret)
}

// secretUnavailable returns the error for a secret that could not be read. It
// is a failure of the credential, unless ctx ended or the token endpoint could
// not be reached.
func secretUnavailable(ctx context.Context, credential string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if _, is := errors.AsType[*unreachable](err); is {
		return err
	}
	return &state.CredentialError{Name: credential, Err: err}
}

// saslClient returns the SASL client that logs in s.Username with secret.
func (s Server) saslClient(secret string) (sasl.Client, error) {
	switch s.Auth {
	case AuthPlain, "":
		if strings.Contains(secret, "\x00") {
			return nil, errors.New("the password contains a NUL byte")
		}
		return sasl.NewPlainClient("", s.Username, secret), nil
	case AuthXOAuth2:
		if err := tokenShape(secret); err != nil {
			return nil, err
		}
		return xoauth2{s.Username, secret}, nil
	case AuthOAuthBearer:
		if err := tokenShape(secret); err != nil {
			return nil, err
		}
		return oauthBearer{s.Username, secret}, nil
	default:
		return nil, fmt.Errorf("auth = %q is not %q, %q or %q", s.Auth, AuthPlain, AuthXOAuth2, AuthOAuthBearer)
	}
}

// tokenShape returns an error for a string that cannot be a bearer token (RFC 6750 section
// 2.1). Such a string could add a field to the message around it.
func tokenShape(token string) error {
	for _, r := range token {
		if r <= ' ' || r > '~' {
			return errors.New("the access token contains an invalid character")
		}
	}
	return nil
}

// xoauth2 is the XOAUTH2 of Google and Microsoft, which go-sasl lacks.
type xoauth2 struct{ user, token string }

func (x xoauth2) Start() (string, []byte, error) {
	return "XOAUTH2", []byte("user=" + x.user + "\x01auth=Bearer " + x.token + "\x01\x01"), nil
}

// Next answers the server's explanation of a refusal with an empty line. The
// server then sends the refusal itself as an error.
func (x xoauth2) Next([]byte) ([]byte, error) { return []byte{}, nil }

// oauthBearer is OAUTHBEARER (RFC 7628). The implementation in go-sasl stops at a refusal
// instead of reading the server's final answer.
type oauthBearer struct{ user, token string }

func (o oauthBearer) Start() (string, []byte, error) {
	// RFC 5801 section 4: "," and "=" are escaped in the name.
	user := strings.NewReplacer("=", "=3D", ",", "=2C").Replace(o.user)
	return "OAUTHBEARER", []byte("n,a=" + user + ",\x01auth=Bearer " + o.token + "\x01\x01"), nil
}

// Next answers the server's explanation of a refusal as RFC 7628 section 3.2.3
// requires.
func (o oauthBearer) Next([]byte) ([]byte, error) { return []byte{1}, nil }

// GreetIMAP connects, completes the handshake and waits until the server shows that
// it speaks IMAP. It does not log in. Its errors name no host.
func (s Server) GreetIMAP(ctx context.Context) error {
	_, err := withFreshRoots(s, func() (none struct{}, err error) { return none, s.greetIMAP(ctx) })
	return err
}

func (s Server) greetIMAP(ctx context.Context) error {
	conn, err := s.dial(ctx)
	if err != nil {
		return cause(ctx, err)
	}
	defer conn.Close()
	stop := closeOnDone(ctx, conn)
	defer stop()
	s.startPhase(conn)
	if s.TLS == TLSStart {
		_, err = s.startTLS(ctx, conn) // startTLS returns only after the greeting
		return cause(ctx, conn.failure(err))
	}
	line, err := readLine(bufio.NewReader(conn))
	if err != nil {
		return cause(ctx, conn.failure(fmt.Errorf("wait for the greeting: %w", worded(err))))
	}
	return checkGreeting(line)
}

// checkGreeting returns an error unless line is the greeting of an IMAP server that takes
// logins.
func checkGreeting(line string) error {
	upper := strings.ToUpper(line)
	text := func(words string) string { return plain.OneLine(strings.TrimSpace(line[len(words):]), 300) }
	switch {
	case strings.HasPrefix(upper, "* OK"), strings.HasPrefix(upper, "* PREAUTH"):
		return nil
	case strings.HasPrefix(upper, "* BYE"):
		return fmt.Errorf("the server closed the connection at once: %s", text("* BYE"))
	}
	return fmt.Errorf("the server does not speak IMAP: %.60q", plain.OneLine(line, 60))
}

// GreetSMTP connects, completes the handshake and greets. It does not log in. Its
// errors name no host.
func (s Server) GreetSMTP(ctx context.Context) error {
	c, err := s.openSenderWith(ctx, nil, nil)
	if err != nil {
		return cause(ctx, err)
	}
	defer c.Close()
	if ok, _ := c.client.Extension("AUTH"); !ok {
		return errNoAuth
	}
	return nil
}

// TryLogin logs in and opens the mailbox read-only. It changes nothing. Its errors
// are those of Open, without the mailbox and its host.
func (m Mailbox) TryLogin(ctx context.Context) error {
	s, err := m.open(ctx, nil, &imap.SelectOptions{ReadOnly: true})
	if err != nil {
		return cause(ctx, err)
	}
	s.Close() // the login works, however the server ends the session
	return nil
}

// TryLogin logs in to an SMTP server and sends nothing. Its errors are those of
// OpenSender, without the host.
func (s Server) TryLogin(ctx context.Context) error {
	c, err := s.openSender(ctx)
	if err != nil {
		return cause(ctx, err)
	}
	c.Close()
	return nil
}

// loginTag is the tag of the login command. go-imap uses T1, T2 and so on.
const loginTag = "L1"

// The command that identifies this program (RFC 2971), sent after the login: 163.com and
// 126.com refuse SELECT without it. Asking whether a server offers ID would cost another round
// trip. A server that does not know the command answers BAD and continues.
const (
	idTag     = "I1"
	idCommand = idTag + ` ID ("name" "agentstateloop" "version" "1" "vendor" "agentstateloop")` + "\r\n"
)

// maxLoginLine limits one line, in bytes, of a server that has not yet shown that it speaks
// IMAP.
const maxLoginLine = 64 << 10

// loginConn logs in before it lets a library speak. The login is our own code because go-imap
// waits twice for AUTHENTICATE, asks for unneeded capabilities, and does not report a BYE.
//
// The first Read reads the answer, and then presents the greeting of a server that is already
// logged in. So the first commands of the library leave in the same flight as the login.
// Everything written before release leaves in one piece.
type loginConn struct {
	fixedDeadline
	br      *bufio.Reader
	pending []byte          // not written yet; nil after release
	secrets func() []string // strings that must not appear in an error
	greet   *bytes.Reader   // nil until the login has been answered
	line    []byte          // the rest of a line for the library, up to the first tagged one
	begun   bool            // the library has its first tagged line
	failed  error           // set before Read returns it; see Mailbox.openWith
}

// greeting replaces the greeting of the server. It keeps go-imap from asking for capabilities.
const greeting = "* PREAUTH [CAPABILITY IMAP4rev1] logged in\r\n"

// startLogin begins with the login command for s, which leaves at release.
func startLogin(conn *boundedConn, br *bufio.Reader, s Server, secret string) (*loginConn, error) {
	line, err := loginLine(s, secret)
	if err != nil {
		return nil, &state.CredentialError{Name: "imap", Err: err}
	}
	forms := func() []string { return secretForms(s, secret) }
	return &loginConn{fixedDeadline: fixedDeadline{conn}, br: br, pending: []byte(line + idCommand), secrets: forms}, nil
}

// Write writes p, or keeps it until release.
func (c *loginConn) Write(p []byte) (int, error) {
	if c.pending != nil {
		c.pending = append(c.pending, p...)
		return len(p), nil
	}
	return c.fixedDeadline.Write(p)
}

// release writes the kept bytes. The library must not write at the same time.
func (c *loginConn) release() error {
	pending := c.pending
	c.pending = nil
	if _, err := c.fixedDeadline.Write(pending); err != nil {
		return fmt.Errorf("login: %w", worded(err))
	}
	return nil
}

// loginLine returns LOGIN if its quoted strings can carry the secret, because every server
// supports it, and otherwise AUTHENTICATE with an initial response (RFC 4959).
func loginLine(s Server, secret string) (string, error) {
	if (s.Auth == AuthPlain || s.Auth == "") && quotable(s.Username) && quotable(secret) {
		return loginTag + " LOGIN " + quote(s.Username) + " " + quote(secret) + "\r\n", nil
	}
	client, err := s.saslClient(secret)
	if err != nil {
		return "", err
	}
	mech, initial, err := client.Start()
	if err != nil {
		return "", err
	}
	return loginTag + " AUTHENTICATE " + mech + " " + base64.StdEncoding.EncodeToString(initial) + "\r\n", nil
}

// maxQuoted is the longest string, in bytes, that is sent in quotes.
const maxQuoted = 1000

// quotable reports whether a quoted string can hold s (RFC 3501 section 9).
func quotable(s string) bool {
	for i := range len(s) {
		if s[i] == 0 || s[i] == '\r' || s[i] == '\n' || s[i] >= 0x80 {
			return false
		}
	}
	return len(s) <= maxQuoted
}

func quote(s string) string {
	return `"` + strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), `"`, `\"`) + `"`
}

// secretForms returns the forms in which a server could echo the secret.
func secretForms(s Server, value string) []string {
	if value == "" {
		return nil
	}
	t := secret.Disguises(value)
	if client, err := s.saslClient(value); err == nil {
		if _, initial, err := client.Start(); err == nil {
			t = append(t, base64.StdEncoding.EncodeToString(initial))
		}
	}
	// The longest form comes first, because it may contain another one.
	order.Sort(t, func(a, b string) int { return len(b) - len(a) })
	return t
}

// redact replaces secrets in the text of a server with asterisks, and makes the text fit for an
// error: one short line.
func redact(traces []string, text string) string {
	for _, t := range traces {
		text = strings.ReplaceAll(text, t, "***")
	}
	return plain.OneLine(text, 300)
}

// Read returns the greeting once the login has succeeded, and then the data of the server.
func (c *loginConn) Read(p []byte) (int, error) {
	if c.failed != nil {
		return 0, c.failed
	}
	if c.greet == nil {
		if err := c.readAnswer(); err != nil {
			c.failed = err
			return 0, err
		}
		c.greet = bytes.NewReader([]byte(greeting))
	}
	if c.greet.Len() > 0 {
		return c.greet.Read(p)
	}
	if c.begun && len(c.line) == 0 {
		return c.br.Read(p)
	}
	return c.readFirst(p)
}

// readFirst reads the lines up to the answer to the first command of the library. It drops the
// answer to ID, which the library did not send.
func (c *loginConn) readFirst(p []byte) (int, error) {
	for len(c.line) == 0 {
		line, err := readLine(c.br)
		if err != nil {
			return 0, err
		}
		if strings.HasPrefix(line, idTag+" ") || strings.HasPrefix(strings.ToUpper(line), "* ID ") {
			continue
		}
		c.line, c.begun = []byte(line+"\r\n"), c.begun || !strings.HasPrefix(line, "* ")
	}
	n := copy(p, c.line)
	c.line = c.line[n:]
	return n, nil
}

// readAnswer reads up to the tagged answer to the login. Only that answer counts: if the login
// is refused, the commands sent after it are refused as well, and their answers carry no
// information.
func (c *loginConn) readAnswer() error {
	greeted := false
	for {
		line, err := readLine(c.br)
		if err != nil {
			return fmt.Errorf("login: %w", worded(err))
		}
		tag, rest, _ := strings.Cut(line, " ")
		kind, text, _ := strings.Cut(rest, " ")
		kind = strings.ToUpper(kind)
		switch {
		case tag == loginTag && kind == "OK":
			return nil
		case tag == loginTag:
			return c.refusal(kind, text)
		case tag == "*" && kind == "BYE" && !greeted:
			return fmt.Errorf("login: the server closed the connection at once: %s", redact(c.secrets(), text))
		case tag == "*" && kind == "BYE":
			return c.refusal(kind, text)
		case tag == "+":
			return c.tokenRefusal(rest)
		case tag == "*":
			greeted = true
		default:
			return fmt.Errorf("login: the server does not speak IMAP: %.60q", redact(c.secrets(), line))
		}
	}
}

// refusal returns the error for a refused login. It is a failure of the
// credential, unless the server cannot log anybody in at the moment
// (docs/design.md, "Credentials").
func (c *loginConn) refusal(kind, text string) error {
	err := fmt.Errorf("login: %s %s", kind, redact(c.secrets(), text))
	if kind == "BAD" || isServerFault(text) {
		return err
	}
	return &state.CredentialError{Name: "imap", Err: err}
}

// isServerFault reports whether text describes a temporary or a configuration fault. It looks for the
// codes of RFC 5530, and for the words of servers that send no code.
func isServerFault(text string) bool {
	upper := strings.ToUpper(text)
	for _, code := range []string{"UNAVAILABLE", "INUSE", "LIMIT", "OVERQUOTA", "SERVERBUG", "PRIVACYREQUIRED"} {
		if strings.HasPrefix(upper, "["+code) {
			return true
		}
	}
	if strings.HasPrefix(upper, "[AUTH") {
		return false
	}
	for _, words := range []string{"TOO MANY SIMULTANEOUS", "SHUTTING DOWN", "TRY AGAIN", "TEMPORAR", "INTERNAL ERROR", "TIMEOUT", "TIMED OUT", "INACTIVITY", "BUSY"} {
		if strings.Contains(upper, words) {
			return true
		}
	}
	return false
}

// tokenRefusal returns the error for a server that explains why it refuses a
// token (RFC 7628 section 3.2.2). The server now waits for a line; we hang up
// instead.
func (c *loginConn) tokenRefusal(b64 string) error {
	text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(b64))
	if err != nil || len(text) == 0 {
		return errors.New("login: the server does not accept an initial response with AUTHENTICATE; use another auth")
	}
	return &state.CredentialError{Name: "imap", Err: fmt.Errorf("login: the server refused the token: %s", redact(c.secrets(), string(text)))}
}

// readLine reads one line of at most maxLoginLine bytes, including its end, and returns it
// without the end.
func readLine(br *bufio.Reader) (string, error) {
	var line []byte
	for {
		part, err := br.ReadSlice('\n')
		if line = append(line, part...); len(line) > maxLoginLine {
			return "", fmt.Errorf("a line exceeds %d bytes", maxLoginLine)
		}
		if err == nil {
			return strings.TrimRight(string(line), "\r\n"), nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return "", err
		}
	}
}

// startTLS upgrades a plaintext connection to TLS (RFC 3501 section 6.2.1). It keeps nothing
// that the server sent before the handshake, so that an attacker in between cannot inject text
// into the protected session.
func (s Server) startTLS(ctx context.Context, conn *boundedConn) (*boundedConn, error) {
	br := bufio.NewReaderSize(conn, 4096)
	if _, err := conn.Write([]byte("S1 STARTTLS\r\n")); err != nil {
		return nil, fmt.Errorf("starttls: %w", worded(err))
	}
	for {
		line, err := readLine(br)
		if err != nil {
			return nil, fmt.Errorf("starttls: %w", worded(err))
		}
		if strings.HasPrefix(strings.ToUpper(line), "* PREAUTH") {
			return nil, errors.New("starttls: the server logged in before TLS")
		}
		rest, tagged := strings.CutPrefix(line, "S1 ")
		if !tagged {
			continue
		}
		if !strings.HasPrefix(strings.ToUpper(rest), "OK") {
			return nil, fmt.Errorf("starttls: %s", plain.OneLine(rest, 300))
		}
		if br.Buffered() > 0 {
			return nil, errors.New("starttls: the server sent data before the handshake")
		}
		protected, err := s.handshake(ctx, conn.Conn)
		if err != nil {
			return nil, err
		}
		return newBoundedConn(protected, conn.paced), nil
	}
}
