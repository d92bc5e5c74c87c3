package mail_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail"
	"agentstateloop/mail/message"
	"agentstateloop/state"

	"github.com/emersion/go-smtp"
)

// startSink starts a server that receives mail by SMTP.
func startSink(t testing.TB, options mailtest.Options) (mail.Server, *mailtest.Servers) {
	t.Helper()
	s := mailtest.StartMemory(t, options)
	return tlsServer(s.SMTPTLS, s.Username, s.Password, s.CAFile), s
}

func open(t testing.TB, server mail.Server) *mail.Sender {
	t.Helper()
	s, err := server.OpenSender(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// renderedMail returns one of our mails.
func renderedMail(t testing.TB) []byte {
	t.Helper()
	var b bytes.Buffer
	err := message.Render(&b, message.Draft{
		ID: "reply.t1", IDKey: filter.IDKey, Handle: "goulard3120", From: "artificer3120@example.org", To: "operator@example.com",
		Subject: "@goulard3120 status", Date: noon, InReplyTo: "<q@example.com>", References: []string{"<p@example.com>"},
		Text: "All is well.\n.\n..dots\nFrom here on äöü.", Auto: message.AutoReplied,
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestSendKeepsBytes checks that a mail arrives byte for byte, with every kind of connection and
// login.
func TestSendKeepsBytes(t *testing.T) {
	server, s := startSink(t, mailtest.Options{Token: "ya29.token"})
	raw := renderedMail(t)
	for _, way := range []struct{ addr, tls, auth, secret string }{
		{s.SMTPTLS, mail.TLSImplicit, mail.AuthPlain, s.Password},
		{s.SMTP, mail.TLSStart, mail.AuthPlain, s.Password},
		{s.SMTP, mail.TLSNone, "", s.Password},
		{s.SMTPTLS, mail.TLSImplicit, mail.AuthXOAuth2, "ya29.token"},
		{s.SMTPTLS, mail.TLSImplicit, mail.AuthOAuthBearer, "ya29.token"},
	} {
		server.Addr, server.TLS, server.Auth, server.Secret = way.addr, way.tls, way.auth, fixedSecret(way.secret)
		c := open(t, server)
		var before atomic.Int32
		err := c.Send(t.Context(), "artificer3120@example.org", []string{"operator@example.com"}, bytes.NewReader(raw), func() error {
			before.Store(int32(len(s.Sent())))
			return nil
		})
		if err != nil {
			t.Errorf("%+v: %v", way, err)
			continue
		}
		sent := s.Sent()
		if int(before.Load()) != len(sent)-1 {
			t.Errorf("%+v: accepted before the dot", way)
		}
		got := sent[len(sent)-1]
		if !bytes.Equal(got.Raw, raw) || got.From != "artificer3120@example.org" || len(got.To) != 1 || got.To[0] != "operator@example.com" {
			t.Errorf("%+v: arrived as %q from %s to %s", way, got.Raw, got.From, got.To)
		}
	}
}

func TestSenderIsRefused(t *testing.T) {
	server, s := startSink(t, mailtest.Options{Token: "good"})
	for _, auth := range []string{mail.AuthPlain, mail.AuthXOAuth2, mail.AuthOAuthBearer} {
		server.Auth, server.Secret = auth, fixedSecret("wrong-secret")
		_, err := server.OpenSender(t.Context())
		if c, ok := state.CredentialFailure(err); !ok || c.Name != "smtp" {
			t.Errorf("%s: %v, want a failure of the credential smtp", auth, err)
		}
		if strings.Contains(err.Error(), "wrong-secret") {
			t.Errorf("%s: the error holds the secret: %v", auth, err)
		}
	}
	s.Close()
	_, err := server.OpenSender(t.Context())
	if _, ok := state.CredentialFailure(err); ok || err == nil {
		t.Errorf("no server: %v, want an error that is not the credential's", err)
	}
}

// TestSendVerdicts checks that each failure reports whether the mail may have arrived.
func TestSendVerdicts(t *testing.T) {
	reply := func(code int, enhanced ...int) error {
		e := &smtp.SMTPError{Code: code, Message: "because"}
		if len(enhanced) == 3 {
			e.EnhancedCode = smtp.EnhancedCode(enhanced)
		}
		return e
	}
	full := errors.New("disk full")
	for _, tt := range []struct {
		name       string
		options    mailtest.Options
		beforeDot  func() error
		verdict    mail.Verdict
		code       int
		credential bool
	}{
		{name: "sender refused", options: mailtest.Options{OnMail: func(string) error { return reply(550) }}, verdict: mail.Permanent, code: 550},
		{name: "recipient refused", options: mailtest.Options{OnRcpt: func(string) error { return reply(553) }}, verdict: mail.Permanent, code: 553},
		{name: "greylisted", options: mailtest.Options{OnRcpt: func(string) error { return reply(451) }}, verdict: mail.Temporary, code: 451},
		{name: "closing", options: mailtest.Options{OnMail: func(string) error { return reply(421) }}, verdict: mail.Temporary, code: 421},
		{name: "login lapsed", options: mailtest.Options{OnMail: func(string) error { return reply(530) }}, verdict: mail.Temporary, code: 530, credential: true},
		{name: "daily limit", options: mailtest.Options{OnMail: func(string) error { return reply(550, 5, 4, 5) }}, verdict: mail.Temporary, code: 550},
		{name: "content refused", options: mailtest.Options{OnData: func(net.Conn, []byte) error { return reply(554) }}, verdict: mail.Permanent, code: 554},
		{name: "busy after the dot", options: mailtest.Options{OnData: func(net.Conn, []byte) error { return reply(452) }}, verdict: mail.Temporary, code: 452},
		{name: "hung up before the mail", options: mailtest.Options{}, verdict: mail.Temporary, beforeDot: func() error { return full }},
		{name: "no refusal after the dot", options: mailtest.Options{OnData: func(net.Conn, []byte) error { return reply(354) }}, verdict: mail.Unknown},
		{name: "hung up after the dot", options: mailtest.Options{OnData: func(c net.Conn, _ []byte) error { c.Close(); return errors.New("gone") }}, verdict: mail.Unknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server, s := startSink(t, tt.options)
			c := open(t, server)
			err := c.Send(t.Context(), "a@example.org", []string{"b@example.com"}, strings.NewReader("Subject: x\r\n\r\nx\r\n"), tt.beforeDot)
			var failure *mail.SendError
			if !errors.As(err, &failure) {
				t.Fatalf("got %v, want a SendError", err)
			}
			if failure.Verdict != tt.verdict || failure.Code != tt.code {
				t.Errorf("got %v, code %d; want %v, %d: %v", failure.Verdict, failure.Code, tt.verdict, tt.code, err)
			}
			if _, ok := state.CredentialFailure(err); ok != tt.credential {
				t.Errorf("credential failure %v, want %v", ok, tt.credential)
			}
			if tt.beforeDot != nil && !errors.Is(err, full) {
				t.Errorf("got %v, want %v", err, full)
			}
			if len(s.Sent()) != 0 {
				t.Error("it was accepted all the same")
			}
		})
	}
}

// TestEchoAfterLogin checks that a server that echoes the login later, truncated anywhere, does not
// get it into an error.
func TestEchoAfterLogin(t *testing.T) {
	const password = "pass-canary-0123456789"
	padding := strings.Repeat("x", 240)
	server, _ := startSink(t, mailtest.Options{Password: password, OnRcpt: func(string) error {
		return &smtp.SMTPError{Code: 550, Message: padding + password + " " + base64.StdEncoding.EncodeToString([]byte("\x00me\x00"+password))}
	}})
	c := open(t, server)
	err := c.Send(t.Context(), "a@example.org", []string{"b@example.com"}, strings.NewReader("Subject: x\r\n\r\nx\r\n"), nil)
	if err == nil || strings.Contains(err.Error(), "pass-") || strings.Contains(err.Error(), "cGFzcy1") {
		t.Errorf("%v", err)
	}
}

// countingConn counts the flights of a client. A flight is a write after a read.
type countingConn struct {
	net.Conn
	mu      sync.Mutex
	read    bool
	flights [][]byte
}

func (c *countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = c.read || n > 0
	return n, err
}

func (c *countingConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.read || len(c.flights) == 0 {
		c.flights = append(c.flights, nil)
	}
	c.read = false
	c.flights[len(c.flights)-1] = append(c.flights[len(c.flights)-1], p...)
	return c.Conn.Write(p)
}

// startRelay starts a relay of one connection to addr. It returns the relay's address and the flights
// of the client.
func startRelay(t *testing.T, addr string) (string, func() []string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	done := make(chan []string, 1)
	go func() {
		here, err := l.Accept()
		if err != nil {
			return
		}
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		there := &countingConn{Conn: conn}
		answered := make(chan bool)
		go func() {
			io.Copy(here, there)
			close(answered)
		}()
		io.Copy(there, here)
		conn.Close()
		here.Close()
		<-answered
		var commands []string
		for _, f := range there.flights {
			commands = append(commands, string(f))
		}
		done <- commands
	}()
	return l.Addr().String(), func() []string { return <-done }
}

// TestRoundTripsOfAMail checks that a mail takes four flights after the greeting: EHLO, the login,
// the envelope with DATA, and the mail. With TCP, TLS and the greeting that is seven round trips.
func TestRoundTripsOfAMail(t *testing.T) {
	_, s := startSink(t, mailtest.Options{})
	addr, flights := startRelay(t, s.SMTP)
	server := mail.Server{Addr: addr, TLS: mail.TLSNone, Username: s.Username, Secret: fixedSecret(s.Password)}
	c := open(t, server)
	for range 2 {
		if err := c.Send(t.Context(), "a@example.org", []string{"b@example.com"}, strings.NewReader("Subject: x\r\n\r\nx\r\n"), nil); err != nil {
			t.Fatal(err)
		}
	}
	c.Close()
	var commands []string
	for _, f := range flights() {
		lines := strings.Split(strings.TrimSpace(f), "\r\n")
		if strings.HasPrefix(f, "Subject") {
			lines = []string{"(mail)"}
		}
		for i, line := range lines {
			lines[i], _, _ = strings.Cut(line, " ")
		}
		commands = append(commands, strings.Join(lines, "+"))
	}
	want := []string{"EHLO", "AUTH", "MAIL+RCPT+DATA", "(mail)", "MAIL+RCPT+DATA", "(mail)", "QUIT"}
	if !slices.Equal(commands, want) || len(s.Sent()) != 2 {
		t.Errorf("%q, want %q", commands, want)
	}
}

// TestRefusedRecipientGetsNoMail checks that a server that refuses the recipient and requests the
// mail nevertheless gets neither the mail nor the dot.
func TestRefusedRecipientGetsNoMail(t *testing.T) {
	after := make(chan string, 1)
	addr := startServer(t, func(conn net.Conn) {
		io.WriteString(conn, "220 x\r\n")
		lines := bufio.NewReader(conn)
		for _, answer := range []string{"250-x\r\n250 PIPELINING", "250 ok", "550 nobody", "354 go on"} {
			if _, err := lines.ReadString('\n'); err != nil {
				return
			}
			io.WriteString(conn, answer+"\r\n")
		}
		rest, _ := io.ReadAll(lines)
		after <- string(rest)
	})
	c := open(t, mail.Server{Addr: addr, TLS: mail.TLSNone})
	err := c.Send(t.Context(), "a@example.org", []string{"b@example.com"}, strings.NewReader("Subject: x\r\n\r\nx\r\n"), nil)
	failure, ok := errors.AsType[*mail.SendError](err)
	if !ok || failure.Verdict != mail.Permanent || !failure.Recipient {
		t.Errorf("%v", err)
	}
	if rest := <-after; rest != "" {
		t.Errorf("the server was sent %q", rest)
	}
}

// TestSenderIsReused checks that one connection carries many mails, even after one was rejected.
func TestSenderIsReused(t *testing.T) {
	server, s := startSink(t, mailtest.Options{OnRcpt: func(to string) error {
		if to == "nobody@example.com" {
			return &smtp.SMTPError{Code: 550, Message: "no such user"}
		}
		return nil
	}})
	c := open(t, server)
	send := func(to ...string) error {
		return c.Send(t.Context(), "a@example.org", to, strings.NewReader("Subject: x\r\n\r\nx\r\n"), nil)
	}
	for _, to := range [][]string{{"b@example.com"}, {"b@example.com", "nobody@example.com"}, {"c@example.com", "d@example.com"}, nil, {"e@example.com"}} {
		bad := len(to) == 0 || to[len(to)-1] == "nobody@example.com"
		if err := send(to...); (err != nil) != bad {
			t.Errorf("to %v: %v", to, err)
		}
	}
	if sent := s.Sent(); len(sent) != 3 || len(sent[1].To) != 2 {
		t.Errorf("arrived: %+v", sent)
	}
	c.Close()
	var failure *mail.SendError
	if err := send("b@example.com"); !errors.As(err, &failure) || failure.Verdict != mail.Temporary {
		t.Errorf("after Close: %v", err)
	}
}

// TestSendFailures checks that no mail is accepted before the dot, at any kind of failure. After the
// dot a silent server leaves the outcome unknown.
func TestSendFailures(t *testing.T) {
	release := make(chan struct{})
	server, s := startSink(t, mailtest.Options{OnData: func(net.Conn, []byte) error { <-release; return nil }})
	defer close(release)
	var failure *mail.SendError

	ctx, cancel := context.WithCancel(t.Context())
	c := open(t, server)
	err := c.Send(ctx, "a@example.org", []string{"b@example.com"}, strings.NewReader("x\r\n"), func() error { cancel(); return nil })
	if !errors.As(err, &failure) || failure.Verdict != mail.Temporary || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before the dot: %v", err)
	}

	c = open(t, server)
	err = c.Send(t.Context(), "a@example.org", []string{"b@example.com"}, io.MultiReader(strings.NewReader("x\r\n"), broken{}), nil)
	if !errors.As(err, &failure) || failure.Verdict != mail.Temporary {
		t.Errorf("the body breaks off: %v", err)
	}

	withGrowingTimeout(t, func(timeout time.Duration) bool {
		server.Timeout = timeout
		c, err := server.OpenSender(t.Context())
		if err != nil {
			return false
		}
		defer c.Close()
		dotted := false
		err = c.Send(t.Context(), "a@example.org", []string{"b@example.com"}, strings.NewReader("x\r\n"), func() error { dotted = true; return nil })
		if dotted && (!errors.As(err, &failure) || failure.Verdict != mail.Unknown) {
			t.Errorf("no answer to the dot: %v", err)
		}
		return dotted
	})
	if len(s.Sent()) != 0 {
		t.Errorf("arrived: %+v", s.Sent())
	}
}

// TestSMTPSecretIsNotEchoed checks that a server that echoes its input does not get the secret into
// an error.
func TestSMTPSecretIsNotEchoed(t *testing.T) {
	addr := startServer(t, func(c net.Conn) {
		br := bufio.NewReader(c)
		io.WriteString(c, "220 hi\r\n")
		br.ReadString('\n')
		io.WriteString(c, "250-hi\r\n250 AUTH PLAIN\r\n")
		line, _ := br.ReadString('\n')
		io.WriteString(c, "535 what is "+strings.TrimSpace(line)+" and hunter2\r\n")
		br.ReadString('\n')
		io.WriteString(c, "221 bye\r\n")
	})
	server := mail.Server{Addr: addr, TLS: mail.TLSNone, Username: "a", Secret: fixedSecret("hunter2"), Timeout: time.Minute}
	_, err := server.OpenSender(t.Context())
	if _, ok := state.CredentialFailure(err); !ok || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "AGEAaHVudGVyMg") {
		t.Errorf("got %v", err)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("broken file") }
