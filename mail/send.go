package mail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"agentstateloop/mail/message"
	"agentstateloop/state"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// Verdict is the outcome of a Send that failed.
type Verdict int

const (
	// Temporary means that the mail was not accepted. Try again later.
	Temporary Verdict = iota
	// Permanent means that the mail was rejected and will be rejected again.
	Permanent
	// Unknown means that the final dot went out and no answer came back. The
	// mail may have been accepted.
	Unknown
)

func (v Verdict) String() string {
	switch v {
	case Temporary:
		return "temporary"
	case Permanent:
		return "permanent"
	case Unknown:
		return "unknown"
	}
	return fmt.Sprintf("Verdict(%d)", int(v))
}

// SendError is the error of every Send.
type SendError struct {
	Verdict   Verdict
	Code      int  // the reply code of the server; 0 if it sent none
	Recipient bool // the reply was about a recipient; the mail may be accepted for another one
	Err       error
}

func (e *SendError) Error() string { return fmt.Sprintf("send mail (%s): %v", e.Verdict, e.Err) }

// Unwrap returns the cause. It is a *state.CredentialError named "smtp" if the
// server no longer accepts our login.
func (e *SendError) Unwrap() error { return e.Err }

// Sender is a logged-in SMTP connection for any number of mails, one after another. Only one
// goroutine may use it.
type Sender struct {
	server  Server
	conn    *boundedConn // its deadlines work, unlike those of a fixedDeadline
	client  *smtp.Client
	ahead   *aheadConn // under client; nil: each command waits for the answer to the previous one
	secrets []string   // strings that must not appear in an error
	closed  error      // why the connection was closed; nil while it is open
}

// OpenSender connects, greets, starts TLS if configured, and logs in. With an
// empty Username it does not log in. If the secret is refused or cannot be
// read, the error is a *state.CredentialError named "smtp". A network fault is
// never such an error.
func (s Server) OpenSender(ctx context.Context) (*Sender, error) {
	c, err := s.openSender(ctx)
	if err != nil {
		return nil, fmt.Errorf("open smtp at %s: %w", s.Addr, cause(ctx, err))
	}
	return c, nil
}

func (s Server) openSender(ctx context.Context) (*Sender, error) {
	if s.Username == "" {
		return s.openSenderWith(ctx, nil, nil)
	}
	return openWithSecret(ctx, s, "smtp", func(secret string) (*Sender, error) {
		login := func(c *smtp.Client) error { return s.smtpLogin(c, secret) }
		return s.openSenderWith(ctx, login, secretForms(s, secret))
	})
}

// openSenderWith calls login if it is not nil. The errors of the Sender do not
// contain secrets.
func (s Server) openSenderWith(ctx context.Context, login func(*smtp.Client) error, hide []string) (*Sender, error) {
	return withFreshRoots(s, func() (*Sender, error) { return s.greetAndLogin(ctx, login, hide) })
}

func (s Server) greetAndLogin(ctx context.Context, login func(*smtp.Client) error, hide []string) (*Sender, error) {
	conn, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	stop := closeOnDone(ctx, conn)
	defer stop()

	s.startPhase(conn)
	ahead := &aheadConn{Conn: fixedDeadline{conn}}
	client, err := s.smtpClient(ahead)
	if err != nil {
		conn.Close()
		return nil, err
	}
	client.CommandTimeout, client.SubmissionTimeout = s.timeout(), s.timeout()
	if err := client.Hello(helloName(conn)); err != nil {
		conn.Close()
		return nil, fmt.Errorf("greet: %w", worded(err))
	}
	if login != nil {
		if err := login(client); err != nil {
			conn.Close()
			return nil, err
		}
	}
	if pipelining, _ := client.Extension("PIPELINING"); !pipelining || s.TLS == TLSStart { // TLS is in between
		ahead = nil
	}
	return &Sender{server: s, conn: conn, client: client, ahead: ahead, secrets: hide}, nil
}

// smtpClient returns a client for conn, after STARTTLS if s asks for it (RFC
// 3207).
func (s Server) smtpClient(conn net.Conn) (*smtp.Client, error) {
	if s.TLS != TLSStart {
		return smtp.NewClient(conn), nil
	}
	cfg, err := s.tlsConfig()
	if err != nil {
		return nil, err
	}
	client, err := smtp.NewClientStartTLS(conn, cfg)
	if err != nil {
		return nil, fmt.Errorf("starttls: %w", worded(err))
	}
	return client, nil
}

// errNoAuth reports an SMTP server that accepts no login, such as one for other servers on port
// 25.
var errNoAuth = errors.New("the server does not offer AUTH; check host, port and tls")

// smtpLogin logs in. Its errors never hold the secret, even if the server
// repeats it.
func (s Server) smtpLogin(c *smtp.Client, secret string) error {
	proof, err := s.saslClient(secret)
	if err != nil {
		return &state.CredentialError{Name: "smtp", Err: err}
	}
	plain := s.Auth == AuthPlain || s.Auth == ""
	if plain && !c.SupportsAuth(sasl.Plain) && c.SupportsAuth(sasl.Login) {
		proof = sasl.NewLoginClient(s.Username, secret)
	}
	if ok, _ := c.Extension("AUTH"); !ok {
		return fmt.Errorf("login: %w", errNoAuth)
	}
	err = c.Auth(proof)
	if err == nil {
		return nil
	}
	clean := fmt.Errorf("login: %s", redact(secretForms(s, secret), wording(err)))
	var reply *smtp.SMTPError
	if errors.As(err, &reply) && credentialCode(reply.Code) {
		return &state.CredentialError{Name: "smtp", Err: clean}
	}
	if errors.As(err, &reply) {
		return clean
	}
	return fmt.Errorf("login: %w", worded(err)) // a network error, which repeats no secret
}

// credentialCode reports whether code is a reply about the login (RFC 4954
// section 6).
func credentialCode(code int) bool { return code == 530 || code == 534 || code == 535 }

// helloName returns the address literal of our end of conn (RFC 5321 section
// 4.1.4). It is always valid and reveals no host name.
func helloName(conn net.Conn) string {
	a, ok := conn.LocalAddr().(*net.TCPAddr)
	if !ok {
		return "localhost"
	}
	if ip := a.IP.To4(); ip != nil {
		return "[" + ip.String() + "]"
	}
	return "[IPv6:" + a.IP.String() + "]"
}

// Send sends body, a rendered mail, to all recipients or to none. beforeDot may be nil. Send
// calls it when the server has everything but the final dot. From then on the mail may be
// accepted, so beforeDot is the place to record that. If beforeDot returns an error, Send stops
// and the mail is not accepted.
//
// Every error is a *SendError. After beforeDot, the end of ctx no longer interrupts Send, only
// the deadline of the server does: hanging up then would make the outcome unknown.
func (c *Sender) Send(ctx context.Context, from string, to []string, body io.Reader, beforeDot func() error) error {
	if c.closed != nil {
		return &SendError{Verdict: Temporary, Err: fmt.Errorf("the connection is closed: %w", c.closed)}
	}
	stop := closeOnDone(ctx, c.conn)
	defer stop()
	c.server.startPhase(c.conn)

	data, err := c.begin(from, to)
	if err != nil {
		return c.refusal(ctx, err)
	}
	c.server.startPhase(c.conn)
	sent, err := io.Copy(data, paceReader{body, c.conn.paced})
	if err != nil {
		// Hanging up keeps the server from taking half a mail for a whole one.
		return c.abort(ctx, err)
	}
	if beforeDot != nil {
		if err := beforeDot(); err != nil {
			return c.abort(ctx, fmt.Errorf("before the final dot: %w", err))
		}
	}
	if !stop() {
		return c.abort(ctx, context.Cause(ctx))
	}
	c.server.startPhase(c.conn)
	c.conn.SetDeadline(time.Now().Add(c.server.timeout() + underWay(sent)))
	// go-smtp keeps back the end of the body and writes it with the dot, here.
	if err := data.Close(); err != nil {
		// A reply that is not a refusal, such as one sent twice, answers something else. The
		// answer to the dot is then unknown.
		var reply *smtp.SMTPError
		if errors.As(err, &reply) && reply.Code/100 >= 4 {
			return c.refusal(ctx, err)
		}
		c.hangUp(err)
		return &SendError{Verdict: Unknown, Err: fmt.Errorf("no answer to the final dot: %w", err)}
	}
	return nil
}

// paceReader allows time for sending each byte that is read from it.
type paceReader struct {
	io.Reader
	conn *pacedConn
}

func (r paceReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.conn.expect(int64(n))
	return n, err
}

// maxUnderWay is the maximum time that a server may need for data in transit. RFC 5321 section
// 4.5.3.2.6 asks for as much.
const maxUnderWay = 10 * time.Minute

// underWay returns how long the end of a mail of n bytes may be in transit after everything is
// written: written data waits in buffers, here and in the network.
func underWay(n int64) time.Duration {
	return min(timeFor(n), maxUnderWay)
}

func (c *Sender) begin(from string, to []string) (io.WriteCloser, error) {
	opts := &smtp.MailOptions{UTF8: !message.IsASCII(from) || !message.IsASCII(strings.Join(to, ""))}
	if len(to) == 0 {
		return nil, &smtp.SMTPError{Code: 554, Message: "no recipient"}
	}
	if c.ahead != nil {
		c.ahead.next = envelopeAhead(to)
	}
	err := c.client.Mail(from, opts)
	if c.ahead != nil {
		c.ahead.next = nil // MAIL may have failed before it was written
	}
	if err != nil {
		err = fmt.Errorf("from <%s>: %w", from, err)
	}
	for _, r := range to {
		if err != nil && !c.answersFollow(err) {
			return nil, err
		}
		if refused := c.client.Rcpt(r, nil); refused != nil && err == nil {
			err = &recipientError{fmt.Errorf("to <%s>: %w", r, refused)}
		}
	}
	if err != nil && !c.answersFollow(err) {
		return nil, err
	}
	data, refused := c.client.Data()
	if err != nil && refused == nil {
		c.hangUp(err) // the server would accept the mail for some recipients, and must not get it
	}
	if err != nil {
		return nil, err
	}
	return data, refused
}

// answersFollow reports whether err is a refusal and the commands after the refused one were
// already sent. Their answers must then be read.
func (c *Sender) answersFollow(err error) bool {
	_, refused := errors.AsType[*smtp.SMTPError](err)
	return refused && c.ahead != nil && len(c.ahead.sent) > 0
}

// recipientError is a refusal of RCPT.
type recipientError struct{ error }

// Unwrap returns the cause.
func (e *recipientError) Unwrap() error { return e.error }

// refusal returns the error for a mail that was not accepted, and makes the
// connection ready for the next mail.
func (c *Sender) refusal(ctx context.Context, err error) error {
	failure := &SendError{Verdict: Temporary, Err: cause(ctx, err)}
	var reply *smtp.SMTPError
	if !errors.As(err, &reply) {
		c.hangUp(err)
		return failure
	}
	_, failure.Recipient = errors.AsType[*recipientError](err)
	failure.Code, failure.Err = reply.Code, errors.New(redact(c.secrets, wording(err)))
	switch {
	case credentialCode(reply.Code):
		failure.Err = &state.CredentialError{Name: "smtp", Err: failure.Err}
	case reply.EnhancedCode == smtp.EnhancedCode{5, 4, 5}:
		// The daily limit of Gmail, which ends by itself.
	case reply.Code/100 >= 5:
		failure.Verdict = Permanent
	}
	if reply.Code == 421 {
		failure.Recipient = false // the server goes away
		c.hangUp(err)
	} else if c.closed != nil {
		return failure
	} else if err := c.client.Reset(); err != nil {
		c.hangUp(err)
	}
	return failure
}

// abort hangs up before the dot, so that the mail is not accepted.
func (c *Sender) abort(ctx context.Context, err error) error {
	c.hangUp(err)
	return &SendError{Verdict: Temporary, Err: cause(ctx, err)}
}

func (c *Sender) hangUp(reason error) {
	c.closed = reason
	c.conn.Close()
}

// Close sends QUIT and hangs up without waiting for the answer: every mail has been sent and
// answered.
func (c *Sender) Close() error {
	if c.closed == nil {
		c.conn.SetDeadline(time.Now().Add(time.Second))
		c.conn.SetReadDeadline(time.Now())
		c.client.Quit()
		c.hangUp(net.ErrClosed)
	}
	return nil
}
