package mailtest

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/mail"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/emersion/go-msgauth/dkim"
	"github.com/emersion/go-smtp"
	"golang.org/x/net/dns/dnsmessage"
)

// DNS is a name server on loopback with TXT records. Other names do not exist.
type DNS struct {
	Addr string // host:port, UDP

	conn net.PacketConn

	mu    sync.Mutex
	txt   map[string][]string
	fails map[string]bool
	asked []string
	hold  int      // number of queries that must wait before any is answered
	held  []func() // their answers
}

// NewDNS starts a server for one test.
func NewDNS(t T) *DNS {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	d := &DNS{Addr: conn.LocalAddr().String(), conn: conn, txt: map[string][]string{}, fails: map[string]bool{}}
	go d.serve() // ends with the connection
	return d
}

// Set sets the TXT records of name, and ends the effect of Fail on it.
func (d *DNS) Set(name string, records ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.txt[canonical(name)] = records
	delete(d.fails, canonical(name))
}

// Fail makes the server answer SERVFAIL for name.
func (d *DNS) Fail(name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fails[canonical(name)] = true
}

// Hold makes the server answer the next n queries only when the last of them has come.
func (d *DNS) Hold(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hold = n
}

// send sends a reply once all replies held with it are ready.
func (d *DNS) send(reply []byte, to net.Addr) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held = append(d.held, func() { d.conn.WriteTo(reply, to) })
	if d.hold--; d.hold > 0 {
		return
	}
	for _, send := range d.held {
		send()
	}
	d.held = nil
}

// Asked returns the queried names, in order.
func (d *DNS) Asked() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.asked)
}

func canonical(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

func (d *DNS) serve() {
	buf := make([]byte, 4096)
	for {
		n, from, err := d.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		if reply := d.answer(buf[:n]); reply != nil {
			d.send(reply, from)
		}
	}
}

// answer returns the reply to a query, or nil if query is malformed.
func (d *DNS) answer(query []byte) []byte {
	var asked dnsmessage.Message
	if err := asked.Unpack(query); err != nil || len(asked.Questions) == 0 {
		return nil
	}
	q := asked.Questions[0]
	name := canonical(q.Name.String())
	d.mu.Lock()
	records, known := d.txt[name]
	fails := d.fails[name]
	d.asked = append(d.asked, name)
	d.mu.Unlock()

	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: asked.ID, Response: true, RecursionDesired: true, RecursionAvailable: true},
		Questions: []dnsmessage.Question{q},
	}
	switch {
	case fails:
		m.RCode = dnsmessage.RCodeServerFailure
	case !known:
		m.RCode = dnsmessage.RCodeNameError
	case q.Type == dnsmessage.TypeTXT:
		for _, r := range records {
			m.Answers = append(m.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 60},
				Body:   &dnsmessage.TXTResource{TXT: pieces(r)},
			})
		}
	}
	reply, _ := m.Pack() // an error means that it is nil
	return reply
}

// pieces cuts a record into strings of at most 255 bytes (RFC 1035 section 3.3).
func pieces(s string) []string {
	var p []string
	for len(s) > 255 {
		p, s = append(p, s[:255]), s[255:]
	}
	return append(p, s)
}

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
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
		return &delivery{servers: &Servers{}, trusted: true, accept: mx.accept}, nil
	}))
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

// accept delivers a mail with the notes.
func (mx *MX) accept(m Sent) error {
	top := fmt.Sprintf("Return-Path: <%s>\r\nAuthentication-Results: %s; %s\r\nReceived: from %s by %s; %s\r\n",
		m.From, mx.authservID, mx.verdict(m.Raw), "sender.example.net", mx.authservID, time.Now().Format(time.RFC1123Z))
	return mx.deliver(append([]byte(top), mx.withoutOwn(m.Raw)...))
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

// CA is a certificate authority for tests.
type CA struct {
	Cert *x509.Certificate
	Key  *ecdsa.PrivateKey
	PEM  []byte
}

// NewCA returns an authority that is valid for a day.
func NewCA() (*CA, error) { return newCA("mailtest root", nil) }

// Intermediate returns an authority below ca.
func (ca *CA) Intermediate() (*CA, error) { return newCA("mailtest intermediate", ca) }

func newCA(name string, parent *CA) (*CA, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name, SerialNumber: rand.Text()},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	key, der, err := parent.sign(template)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &CA{Cert: cert, Key: key, PEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, err
}

// sign makes a key and its certificate. Without an authority, the certificate signs itself.
func (ca *CA) sign(template *x509.Certificate) (key *ecdsa.PrivateKey, der []byte, err error) {
	if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, nil, err
	}
	if ca == nil {
		ca = &CA{Cert: template, Key: key}
	}
	der, err = x509.CreateCertificate(rand.Reader, template, ca.Cert, &key.PublicKey, ca.Key)
	return key, der, err
}

// Issue returns a server certificate for host and the loopback addresses, with
// the given changes.
func (ca *CA) Issue(host string, changes ...func(*x509.Certificate)) (tls.Certificate, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: host},
		NotBefore:   time.Now().Add(-time.Hour),
		NotAfter:    time.Now().Add(12 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{host},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	for _, change := range changes {
		change(template)
	}
	key, der, err := ca.sign(template)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// localhostTLS returns the configuration of a server with a certificate for "localhost", and writes
// the certificate of its authority to a file. nil means a new authority.
func localhostTLS(ca *CA, caFile string) (cfg *tls.Config, err error) {
	if ca == nil {
		if ca, err = NewCA(); err != nil {
			return nil, err
		}
	}
	cert, err := ca.Issue("localhost")
	if err != nil {
		return nil, err
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}}, os.WriteFile(caFile, ca.PEM, 0o600)
}
