package mail

import (
	"agentstateloop/internal/plain"
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/emersion/go-imap/v2"
)

// GreetIMAP connects, completes the handshake and waits until the server shows that
// it speaks IMAP. It does not log in. Its errors name no host.
func (s Server) GreetIMAP(ctx context.Context) error {
	_, err := trusting(s, func() (none struct{}, err error) { return none, s.greetIMAP(ctx) })
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
	return greets(line)
}

// greets returns an error unless line is the greeting of an IMAP server that takes
// logins.
func greets(line string) error {
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
