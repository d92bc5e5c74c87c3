package mail_test

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"agentstateloop/internal/testkit/mailtest"
	"agentstateloop/mail"
)

// serverSaying is a server that says these words to each client, and then nothing.
func serverSaying(t *testing.T, words string) (addr string) {
	return mailtest.Listen(t, func(c net.Conn) {
		io.WriteString(c, words)
		io.Copy(io.Discard, c)
	})
}

// TestErrorsOfServers connects to servers that fail in every way. Each error has the reason once,
// and the address at most once.
func TestErrorsOfServers(t *testing.T) {
	t.Parallel()
	m := mailtest.StartMemory(t, mailtest.Options{})
	nobody := mailtest.StartNobody(t)
	type errs struct{ imap, smtp, open, send string }
	const unknown = "tls: failed to verify certificate: x509: certificate signed by unknown authority"
	for name, c := range map[string]struct {
		addr, tls, ca string
		want          errs
	}{
		"refused":        {nobody, mail.TLSImplicit, "", errs{"connect: connection refused", "connect: connection refused", ": connect: connection refused", ": connect: connection refused"}},
		"unknown CA":     {m.IMAPTLS, mail.TLSImplicit, "", errs{unknown, unknown, ": " + unknown, ": " + unknown}},
		"no TLS":         {m.IMAP, mail.TLSImplicit, m.CAFile, errs{"tls: first record does not look like a TLS handshake", "tls: first record", ": tls: first record", ": tls: first record"}},
		"no STARTTLS":    {m.IMAPTLS, mail.TLSStart, m.CAFile, errs{"starttls: the server closed the connection", "starttls: timed out", ": starttls: the server closed the connection", ": starttls: timed out"}},
		"no host":        {"imap.nowhere.invalid:993", mail.TLSImplicit, "", errs{"connect: ", "connect: ", ": connect: ", ": connect: "}},
		"no such file":   {m.IMAPTLS, mail.TLSImplicit, "/nowhere.pem", errs{"read ca_file: open /nowhere.pem: no such file", "read ca_file: ", "read ca_file: ", "read ca_file: "}},
		"silent":         {serverSaying(t, ""), mail.TLSNone, "", errs{"wait for the greeting: timed out", "greet: timed out", ": login: timed out", ": greet: timed out"}},
		"silent TLS":     {serverSaying(t, ""), mail.TLSImplicit, "", errs{"tls: timed out", "tls: timed out", ": tls: timed out", ": tls: timed out"}},
		"goes away":      {serverSaying(t, "* BYE too many\r\n"), mail.TLSNone, "", errs{"the server closed the connection at once: too many", `greet: the server does not speak SMTP: "* BYE too many"`, ": login: the server closed the connection at once: too many", ": greet: the server does not speak SMTP: "}},
		"554":            {serverSaying(t, "554 5.7.1 go away\r\n"), mail.TLSNone, "", errs{`the server does not speak IMAP: "554 5.7.1 go away"`, "greet: 554 go away", ": login: the server does not speak IMAP: ", ": greet: 554 go away"}},
		"not this host":  {"imap.example.org:143", mail.TLSNone, "", errs{`connect: tls = "none" is allowed only on loopback`, "connect: tls = ", ": connect: tls = ", ": connect: tls = "}},
		"IMAP, password": {m.IMAPTLS, mail.TLSImplicit, m.CAFile, errs{"", "greet: the server does not speak SMTP: ", ": credential imap: login: NO [AUTHENTICATIONFAILED] Authentication failed", ": greet: the server does not speak SMTP: "}},
		"SMTP, password": {m.SMTPTLS, mail.TLSImplicit, m.CAFile, errs{"the server does not speak IMAP: ", "", ": login: the server does not speak IMAP: ", ": credential smtp: login: 535 Authentication failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			patient := mail.Server{Addr: c.addr, TLS: c.tls, CAFile: c.ca, Username: "agent@example.org", Secret: fixedSecret("another password"), Timeout: time.Minute}
			hasty := patient // where the server is silent
			hasty.Timeout = 2 * time.Second
			type call struct {
				err  error
				want string
			}
			calls := []call{{want: c.want.imap}, {want: c.want.smtp}, {want: c.want.open}, {want: c.want.send}, {want: strings.TrimPrefix(c.want.open, ": ")}, {want: strings.TrimPrefix(c.want.send, ": ")}}
			var calling sync.WaitGroup
			for i, try := range []func(mail.Server, context.Context) error{
				mail.Server.GreetIMAP, mail.Server.GreetSMTP,
				func(s mail.Server, ctx context.Context) error {
					_, err := mail.Mailbox{Server: s}.Open(ctx)
					return err
				},
				func(s mail.Server, ctx context.Context) error { _, err := s.OpenSender(ctx); return err },
				func(s mail.Server, ctx context.Context) error { return mail.Mailbox{Server: s}.TryLogin(ctx) },
				mail.Server.TryLogin,
			} {
				s := patient
				if strings.HasSuffix(calls[i].want, "timed out") {
					s = hasty
				}
				calling.Go(func() { calls[i].err = try(s, t.Context()) })
			}
			calling.Wait()
			for _, got := range calls {
				if got.want == "" && got.err == nil {
					continue
				}
				if got.err == nil {
					t.Errorf("no error, want %q", got.want)
					continue
				}
				text := got.err.Error()
				if got.want == "" || !strings.Contains(text, got.want) {
					t.Errorf("%q, want %q", text, got.want)
				}
				host, _, _ := net.SplitHostPort(c.addr)
				if again := mailtest.Repeated(text); again != "" || strings.Count(text, host) > 1 {
					t.Errorf("%q says %q twice", text, again+" "+host)
				}
			}
		})
	}
}
