package mailtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/mail"
	"strings"
	"time"

	"github.com/emersion/go-msgauth/dkim"
	"github.com/emersion/go-smtp"
)

// MX is a server that accepts mail from anybody for a domain. It notes its verdict on the
// signatures on top of each mail, as OpenDKIM and OpenDMARC do, and delivers the mail.
type MX struct {
	Addr string // host:port of SMTP, on loopback

	authservID string
	resolver   *net.Resolver
	deliver    func(raw []byte) error
}

// StartMX starts a server for one test. authservID is the name in its notes, dns the name
// server that it queries. deliver puts a mail into a mailbox.
func StartMX(t T, authservID string, dns *DNS, deliver func(raw []byte) error) *MX {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mx := &MX{
		Addr: listener.Addr().String(), authservID: authservID, deliver: deliver,
		resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, dns.Addr)
		}},
	}
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &incoming{mx: mx}, nil }))
	server.Domain = authservID
	server.EnableSMTPUTF8 = true
	server.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(func() { server.Close() })
	go server.Serve(listener) // ends with Close
	return mx
}

// Post sends a mail to the server, as anybody can. An error is the server's rejection.
func (mx *MX) Post(envelope, to string, raw []byte) error {
	c, err := smtp.Dial(mx.Addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SendMail(envelope, []string{to}, bytes.NewReader(raw)); err != nil {
		return err
	}
	return c.Quit()
}

// incoming is one connection.
type incoming struct {
	mx   *MX
	from string
}

func (s *incoming) Mail(from string, _ *smtp.MailOptions) error {
	s.from = from
	return nil
}

func (s *incoming) Rcpt(string, *smtp.RcptOptions) error { return nil }
func (s *incoming) Reset()                               { s.from = "" }
func (s *incoming) Logout() error                        { return nil }

func (s *incoming) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	top := fmt.Sprintf("Return-Path: <%s>\r\nAuthentication-Results: %s; %s\r\nReceived: from %s by %s; %s\r\n",
		s.from, s.mx.authservID, s.mx.verdict(raw), "sender.example.net", s.mx.authservID, time.Now().Format(time.RFC1123Z))
	return s.mx.deliver(append([]byte(top), s.mx.withoutOwn(raw)...))
}

// withoutOwn drops the Authentication-Results fields with our name that came with a mail (RFC
// 8601 section 5).
func (mx *MX) withoutOwn(raw []byte) []byte {
	header, body, _ := bytes.Cut(raw, []byte("\r\n\r\n"))
	var kept []string
	dropping := false
	for line := range strings.SplitSeq(string(header), "\r\n") {
		if !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "\t") {
			name, value, _ := strings.Cut(strings.ToLower(line), ":")
			id, _, _ := strings.Cut(strings.TrimSpace(value), ";")
			dropping = strings.TrimSpace(name) == "authentication-results" && strings.TrimSpace(id) == mx.authservID
		}
		if !dropping {
			kept = append(kept, line)
		}
	}
	return []byte(strings.Join(kept, "\r\n") + "\r\n\r\n" + string(body))
}

// verdict returns the DMARC verdict (RFC 7489) on a mail by its signatures alone.
func (mx *MX) verdict(raw []byte) string {
	m, err := mail.ReadMessage(bytes.NewReader(raw))
	if err != nil || len(m.Header["From"]) != 1 {
		return "dmarc=permerror"
	}
	from, err := mail.ParseAddressList(m.Header["From"][0])
	if err != nil || len(from) != 1 {
		return "dmarc=permerror"
	}
	domain := strings.ToLower(from[0].Address[strings.LastIndexByte(from[0].Address, '@')+1:])
	found, err := dkim.VerifyWithOptions(bytes.NewReader(raw), &dkim.VerifyOptions{
		LookupTXT: func(name string) ([]string, error) { return mx.resolver.LookupTXT(context.Background(), name+".") },
	})
	if err != nil {
		return "dmarc=permerror"
	}
	results, dmarc := "", "fail"
	for _, v := range found {
		result := "fail"
		if v.Err == nil {
			result = "pass"
		}
		if v.Err == nil && strings.EqualFold(v.Domain, domain) {
			dmarc = "pass"
		}
		results += fmt.Sprintf("dkim=%s header.d=%s; ", result, v.Domain)
	}
	return results + "dmarc=" + dmarc + " (p=NONE) header.from=" + domain
}
